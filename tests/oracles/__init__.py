"""What each of our tables should hold, worked out in plain Python from the tables' descriptions.

An oracle takes rows as dicts and gives rows as dicts, with every column and the exact types. It
shares nothing with the jobs or the engine, not even constants: if both are wrong in the same way,
then because two people read the description in the same way.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

__all__ = ["Row", "first_taken_in", "in_order", "start_of_window"]

Row = dict[str, Any]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order that depends on their values alone, to compare tables by."""
    return sorted(
        rows, key=lambda row: [(1, value) if value is not None else (0,) for value in row.values()]
    )


def start_of_window(at: dt.datetime, every: dt.timedelta) -> dt.datetime:
    """The newest edge of a grid through 1970 that is not after ``at``."""
    return _EPOCH + (at - _EPOCH) // every * every


def first_taken_in(rows: Iterable[Row], key: tuple[str, ...], within: dt.timedelta) -> list[Row]:
    """Without the rows whose key was taken in, counted or not, at most ``within`` before them."""
    kept: list[Row] = []
    last: dict[tuple[Any, ...], dt.datetime] = {}
    for row in sorted(rows, key=lambda r: (r["_ingested_at"], r["_partition"], r["_offset"])):
        name, at = tuple(row[column] for column in key), row["_ingested_at"]
        before, last[name] = last.get(name), at
        if before is None or at - before > within:
            kept.append(row)
    return kept
