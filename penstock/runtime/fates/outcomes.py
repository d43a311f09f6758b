"""What became of every input row: the tally each commit carries, and the table it ends in.

A tally belongs to the commit it describes: it is part of the commit's metadata, so that data and
count are decided together. ``outcomes.<table>`` is made from there, off the hot path.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from enum import StrEnum
from typing import Any

import pyarrow as pa

from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import commit_metadata
from penstock.runtime.delta.writer import RevisionWriter

__all__ = ["Outcome", "OutcomesTable", "SCHEMA", "Tally"]

SCHEMA = pa.schema(
    [
        ("input", pa.string()),
        ("window_start", pa.timestamp("us", tz="UTC")),  # null where a table has no windows
        ("outcome", pa.string()),
        ("rows", pa.int64()),  # what a commit added; sum it
        ("version", pa.int64()),  # of the revision, when it was counted
    ]
)
KEY = "outcomes"  # of a commit's metadata
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Outcome(StrEnum):
    """What can become of a row; each row (of each window) has exactly one."""

    COUNTED = "counted"
    FILTERED = "filtered"
    DUPLICATE = "duplicate"
    LATE = "late"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"


class Tally:
    """Counts by input, window (microseconds, or None) and outcome."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int | None, str]] = Counter()

    def add(self, source: str, outcome: Outcome, rows: int, window: int | None = None) -> None:
        if rows:
            self._counts[source, window, outcome.value] += rows

    def take(self) -> list[list[Any]]:
        """What was counted since the last time, as a commit carries it."""
        counted, self._counts = self._counts, Counter()
        return [[*key, rows] for key, rows in counted.items() if rows]

    def __bool__(self) -> bool:
        return any(self._counts.values())


class OutcomesTable:
    """``outcomes.<table>``, fed from the metadata of the table's own commits."""

    EVERY = 10.0  # seconds between files while rows keep coming

    def __init__(self, table: RevisionWriter, into: RevisionWriter) -> None:
        self._table = table
        self._into = into
        self._written = time.monotonic()

    def flush(self, *, now: bool = False) -> None:
        """Bring the table up to date, if it is due."""
        done = self._into.position("outcomes")
        done = -1 if done is None else done
        newest = self._table.log.version
        if newest <= done or not (now or time.monotonic() - self._written >= self.EVERY):
            return
        counts: Counter[tuple[str, int | None, str]] = Counter()
        for version in range(done + 1, newest + 1):
            for source, window, outcome, rows in _tally_of(self._table, version):
                counts[source, window, outcome] += rows
        rows = pa.Table.from_pylist(
            [
                {
                    "input": source,
                    "window_start": None if at is None else _EPOCH + dt.timedelta(microseconds=at),
                    "outcome": outcome,
                    "rows": number,
                    "version": newest,
                }
                for (source, at, outcome), number in counts.items()
                if number
            ],
            schema=SCHEMA,
        )
        self._into.commit(write_arrow(rows, self._into.path), {"outcomes": newest})
        self._written = time.monotonic()


def _tally_of(table: RevisionWriter, version: int) -> list[list[Any]]:
    held = table.tallies.pop(version, None)
    if held is not None:
        return held
    return list(commit_metadata(table.path, version).get(KEY, []))
