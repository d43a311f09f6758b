"""What a trace comes to, as data: a row, the commit that brought it, what that was made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.lineage.commits import Offsets, Span
from penstock.serve.render import plain

__all__ = ["COMMIT", "DECIDED", "EVERYTHING", "ROWS", "Origin", "RowOrigin", "Trace"]

# On what grounds versions of an input are named:
COMMIT = "commit"  # the commit took them in
DECIDED = "decision"  # they decided about what lies beside their table
ROWS = "rows"  # they brought the rows that were found by key, time or place
EVERYTHING = "everything"  # nothing narrower can be said than: up to this version


@dataclass(frozen=True)
class Origin:
    """One input on the way down: which of its versions, and what they were made from."""

    table: str
    revision: str
    basis: str
    versions: list[Span]  # empty: no row of it
    taken: list[Span] = field(default_factory=list)  # by the commit, or commits, that asked
    since: str = ""  # when the first and the last of these were committed
    until: str = ""
    rows: int | None = None  # how many were found, where they could be looked for
    which: str = ""  # by what
    records: list[tuple[int, int, int, int]] = field(default_factory=list)
    topic: str = ""
    offsets: list[Offsets] = field(default_factory=list)
    note: str = ""
    inputs: list[Origin] = field(default_factory=list)


@dataclass(frozen=True)
class RowOrigin:
    """A row, and the commit that brought it; version None: the log no longer goes back so far."""

    row: dict[str, Any]
    file: str  # below home
    revision: str
    state: str
    code: str  # the address of its bundle
    module: str  # the file in there that declares the table, below home
    version: int | None  # of the revision, or of bronze
    time: str
    operation: str
    rows_in: int | None
    rewritten_in: int | None  # the later commit that wrote the file it lies in now
    offsets: list[Offsets]
    inputs: list[Origin]


@dataclass(frozen=True)
class Trace:
    """What was asked for, and the first of the rows it means."""

    table: str
    version: int  # of the table that was looked at
    count: int
    rows: list[RowOrigin]

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = plain(asdict(self))
        return told
