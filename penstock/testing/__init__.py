"""A test kit: run a table of yours on real Delta tables in a folder, with no service at all.

Example:
    >>> kit = Kit(spark, tmp_path, stock_stats, trades_schema)
    >>> kit.feed(first_rows)
    >>> kit.restart()              # as after a crash: only what was committed is known
    >>> kit.feed(more_rows)
    >>> assert kit.rows() == kit.batch_rows()
    >>> assert not any(kit.balance().values())
"""

from penstock.testing.kit import Kit

__all__ = ["Kit"]
