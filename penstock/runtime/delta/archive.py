"""Commits that were cleaned up, in little: what is left of them beside the log, for ever.

**Purpose.** A commit tells which revision and code wrote rows and how far it had read: lineage asks
that long after nobody travels back to that version any more. And whoever begins to read a table
from its beginning must be able to stop half way, so it is kept which commit brought a file.

**How it works.** Whoever removes commits from a log first writes one small Parquet file below
``_commits`` with a line per commit: its time, its word, its transactions, what it told, and those
of its files that are in the table still. What a commit carried for others (rows set apart, counts)
was carried out by then and is left out.

**What it does not do.** Replace the log: a version that is gone from it cannot be travelled to.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.location import Location, readable, scan, write_whole
from penstock.runtime.delta.log import Action

__all__ = ["Archive", "Archived", "archived"]

_FOLDER = "_commits"
_CARRIED = ("apart", "outcomes")
_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("stamp", pa.int64()),
        ("operation", pa.string()),
        ("told", pa.string()),
        ("txns", pa.string()),
        ("adds", pa.list_(pa.string())),
        ("rewrites", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Archived:
    """What is left of one commit."""

    version: int
    stamp: int
    operation: str
    told: dict[str, Any]
    txns: dict[str, int]
    adds: list[str] = field(default_factory=list)
    rewrites: bool = False  # rows went, or were written again: the table does not only grow


def archived(version: int, actions: Iterable[Action], still: Collection[str]) -> Archived:
    """A commit in little; ``still`` are the files the table has when it goes."""
    info: Action = {}
    txns: dict[str, int] = {}
    adds: list[str] = []
    rewrites = False
    for action in actions:
        if "commitInfo" in action:
            info = action["commitInfo"]
        elif "txn" in action:
            txns[action["txn"]["appId"]] = int(action["txn"]["version"])
        elif "add" in action and action["add"]["path"] in still:
            adds.append(action["add"]["path"])
        elif "cdc" in action or ("remove" in action and action["remove"].get("dataChange", True)):
            rewrites = True
    return Archived(
        version,
        int(info.get("timestamp", 0)),
        str(info.get("operation", "")),
        _told(info),
        txns,
        adds,
        rewrites,
    )


def _told(info: Action) -> dict[str, Any]:
    try:
        told = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        return {}  # somebody else's words
    if not isinstance(told, dict):
        return {}
    return {name: value for name, value in told.items() if name not in _CARRIED}


class Archive:
    """The commits of one table that are gone from its log."""

    def __init__(self, path: Location) -> None:
        self._folder = path / _FOLDER
        self._read: dict[tuple[int, int], dict[int, Archived]] = {}

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """First and last version of each file, in order."""
        try:
            with scan(self._folder) as entries:
                stems = [e.name.partition(".") for e in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        spans = [stem.split("-") for stem, _, end in stems if end == "parquet"]
        return sorted((int(first), int(last)) for first, last in spans)

    @property
    def newest(self) -> int:
        """The newest version that is in it; -1: none."""
        return max((last for _, last in self.parts), default=-1)

    def put(self, commits: list[Archived]) -> None:
        """Keep commits, the oldest first; the file is there at once and whole."""
        first, last = commits[0].version, commits[-1].version
        lines = [
            {
                **c.__dict__,
                "told": json.dumps(c.told, separators=(",", ":"), sort_keys=True),
                "txns": json.dumps(c.txns, separators=(",", ":")),
            }
            for c in commits
        ]
        self._folder.mkdir(exist_ok=True)
        table = pa.Table.from_pylist(lines, schema=_SCHEMA)
        body = pa.BufferOutputStream()
        pq.write_table(table, body, compression="zstd", compression_level=9)
        write_whole(self._file((first, last)), body.getvalue().to_pybytes())
        self.__dict__.pop("parts", None)

    def commit(self, version: int) -> Archived | None:
        for span in self.parts:
            if span[0] <= version <= span[1]:
                return self._part(span).get(version)
        return None

    def brought(self) -> tuple[dict[str, int], bool]:
        """Which commit brought a file, and whether rows only ever came."""
        found: dict[str, int] = {}
        grew = True
        for span in self.parts:
            rows = pq.read_table(
                readable(self._file(span)), columns=["version", "adds", "rewrites"]
            )
            grew = grew and not pc.any(rows["rewrites"]).as_py()
            for row in rows.filter(pc.greater(pc.list_value_length(rows["adds"]), 0)).to_pylist():
                found.update(dict.fromkeys(row["adds"], row["version"]))
        return found, grew

    def _file(self, span: tuple[int, int]) -> Location:
        return self._folder / f"{span[0]}-{span[1]}.parquet"

    def _part(self, span: tuple[int, int]) -> dict[int, Archived]:
        if span not in self._read:
            rows = pq.read_table(readable(self._file(span))).to_pylist()
            found = [
                Archived(**{**r, "told": json.loads(r["told"]), "txns": json.loads(r["txns"])})
                for r in rows
            ]
            self._read[span] = {c.version: c for c in found}
        return self._read[span]
