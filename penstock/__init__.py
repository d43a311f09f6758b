"""Penstock: one definition of a table, run continuously and in batch by the same code."""

__version__ = "0.1.0"
