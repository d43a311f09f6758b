"""What an export says of a table it holds, and what came of exporting one.

A *claim* is kept with the exported rows, wherever these are: which version of the live table they
are, how many, and a checksum over all their columns. The checksum is the sum of a hash of every
row, so order does not matter, and the sum of a changed table follows from what changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.serve.snapshot import Column

__all__ = ["Claim", "Mode", "Outcome", "Rebuild", "Sum"]


class Mode:
    """How a table was exported, or why it was not."""

    FULL, INCREMENTAL, UNCHANGED = "full", "incremental", "unchanged"
    BLOCKED, EMPTY, FAILED = "blocked", "no data", "failed"

    NOT_DONE = (BLOCKED, FAILED)


class Rebuild(Exception):
    """Following the changes would not be exact: the table is exported whole, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Sum:
    """Rows and the sum of their hashes; also of a change, then either may be below zero."""

    rows: int
    total: int

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.rows + other.rows, self.total + other.total)

    @property
    def checksum(self) -> str:
        return f"{self.total:x}"


@dataclass(frozen=True)
class Claim:
    """One exported table."""

    table: str
    delta_version: int
    revision: str  # the one live showed
    rows: int
    checksum: str
    exported_at: str
    mode: str
    rows_written: int  # rows put in and rows taken out
    reason: str  # why it was exported whole, or nothing
    verified: str  # "delta": compared with every row of the version; "feed": with what changed
    columns: tuple[Column, ...]
    table_id: str  # Delta's own: a table that was made anew has another
    scheme: str  # who computed the hashes

    @property
    def sum(self) -> Sum:
        return Sum(self.rows, int(self.checksum, 16))

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Claim:
        columns = tuple(Column(**column) for column in told["columns"])
        return cls(**{**told, "columns": columns})

    @classmethod
    def from_json(cls, text: str) -> Claim:
        return cls.of(json.loads(text))


@dataclass(frozen=True)
class Outcome:
    """What came of one table in one run; the fields of a claim, and what the run did."""

    table: str
    mode: str
    reason: str = ""
    delta_version: int | None = None
    live_version: int | None = None
    revision: str = ""
    rows: int | None = None
    checksum: str = ""
    rows_written: int = 0
    inserted: int = 0
    deleted: int = 0
    altered: tuple[str, ...] = ()
    verified: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "altered": list(self.altered)}
