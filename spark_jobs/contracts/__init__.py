"""Contracts: the Avro schemas our streams are read with."""
