"""Moments as whole microseconds since 1970, and back: the arithmetic of windows is exact."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "EPOCH",
    "NEVER",
    "STAMP",
    "latest",
    "micros_of",
    "moment",
    "parse_stamp",
    "stamp",
    "to_micros",
]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
STAMP = pa.timestamp("us", tz="UTC")
NEVER = -(1 << 62)  # before any time there is


def stamp(at: int) -> pa.Scalar:
    """As Arrow compares it with a timestamp column."""
    return pa.scalar(at, pa.int64()).cast(STAMP)


def moment(at: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=at)


def to_micros(at: dt.datetime) -> int:
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return (at - EPOCH) // dt.timedelta(microseconds=1)


def micros_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column of times as whole microseconds."""
    return np.asarray(column.cast(pa.int64()).combine_chunks(), dtype=np.int64)


def latest(column: pa.ChunkedArray) -> int | None:
    """The newest time of a column; None where there is none."""
    newest = pc.max(column)
    return int(newest.cast(pa.int64()).as_py()) if newest.is_valid else None


def parse_stamp(told: Any) -> int | None:
    """From a log's statistics: text, or a moment as delta-rs gives it.

    Returns:
        None: no bound is known, for there is none or it is no time that can be read.
    """
    if isinstance(told, str):
        try:
            told = dt.datetime.fromisoformat(told.replace("Z", "+00:00"))
        except ValueError:
            return None
    return None if told is None else to_micros(told)
