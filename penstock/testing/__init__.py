"""A test kit: run a table of yours on real Delta tables in a folder, with no service at all.

Example:
    >>> harness = Harness(spark, tmp_path, stock_stats, trades_schema)
    >>> harness.feed(first_rows)
    >>> harness.restart()              # as after a crash: only what was committed is known
    >>> harness.feed(more_rows)
    >>> assert harness.rows() == harness.batch_rows()
"""

from penstock.testing.harness import Harness

__all__ = ["Harness"]
