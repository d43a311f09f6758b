"""Checks of whole tables at the boundaries between layers, before a promote and before an export.

A suite is declared in ``expectations/`` with these names and Great Expectations' own classes. What
is here imports neither: a suite says what must hold, the modules beside this one run it.
"""

from penstock.quality.suite import Check, Last, Suite, blocking, suite, warning

__all__ = ["Check", "Last", "Suite", "blocking", "suite", "warning"]
