"""What the rows of a table can be looked up by, as the manifest declares it. No Spark, no files.

A row is named by the table's keys; where there are none, by what it is deduplicated by, or by what
the engine itself writes (a record's partition and offset, a set-apart row's id). Names come from
the manifest and the table's schema only.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import EnvironmentProblem, UsageError
from penstock.serve.snapshot import Column
from penstock.serve.values import is_time

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Entry", "Manifest", "Shape", "key_names", "shape_of"]

Entry = Mapping[str, Any]
_BY_ENGINE = {
    "stream": ("partition", "offset"),
    "quarantine": ("row_id",),
    "late": ("row_id",),
}


class Manifest:
    """The manifest's entries by table, read again when the file is another."""

    def __init__(self, settings: Settings) -> None:
        self._path: Path = settings.manifest
        self._lock = threading.Lock()
        self._mark: tuple[int, int] | None = None
        self._entries: dict[str, Entry] = {}

    def entries(self) -> Mapping[str, Entry]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return {}
        mark = (found.st_ino, found.st_mtime_ns)
        with self._lock:
            if mark != self._mark:
                self._entries, self._mark = self._read(), mark
            return self._entries

    @property
    def mark(self) -> object:
        """Changes when the manifest does."""
        self.entries()
        return self._mark

    def _read(self) -> dict[str, Entry]:
        try:
            return {str(e["name"]): e for e in json.loads(self._path.read_text())["tables"]}
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentProblem(
                f"the list of tables {self._path} cannot be read: {error}.",
                remedy="Write it anew with `penstock register`.",
            ) from None


@dataclass(frozen=True)
class Shape:
    """The keys of a table in their order, and the columns ranges may be of."""

    label: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    time: Column | None

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise UsageError(
            f"{self.label} has no column {name[:60]!a}.",
            remedy=f"Its columns: {', '.join(column.name for column in self.columns)}.",
        )

    def range_column(self, given: int, asked: str | None) -> Column:
        """What a range is of, when the first ``given`` keys are said.

        Raises:
            UsageError: nothing lends itself to it.
        """
        if asked is not None:
            return self.column(asked)
        left = self.keys[given:]
        times = [column for column in left if is_time(column)]
        chosen = times[0] if times else self.time or (left[-1] if left else None)
        if chosen is None:
            raise UsageError(
                f"{self.label} has no time column to take a range of.",
                remedy="Name a column: --on COLUMN (on= in an address).",
            )
        return chosen


def shape_of(label: str, entry: Entry, columns: Sequence[Column]) -> Shape:
    """What the rows of a table with these columns are looked up by."""
    by_name = {column.name: column for column in columns}
    names = key_names(entry)
    keys = [by_name[name] for name in names if name in by_name]
    if len(keys) != len(names):
        keys = []  # it is being changed, or never was as declared: nothing to rely on
    return Shape(label, tuple(keys), tuple(columns), _time(entry, by_name))


def key_names(entry: Entry) -> Sequence[str]:
    """What names a row of a table, in this order; nothing, where nothing does."""
    declared = entry.get("keys") or (entry.get("dedupe") or {}).get("key")
    return tuple(declared or _BY_ENGINE.get(str(entry.get("kind")), ()))


def _time(entry: Entry, by_name: Mapping[str, Column]) -> Column | None:
    """The column that says when: the window's, the declared event time, or the first there is."""
    kind = str(entry.get("kind"))
    first = ("window_end",) if kind == "sliding" else ("window_start", "valid_from")
    for name in (*first, entry.get("on"), "ingested_at" if kind == "stream" else None):
        if name in by_name and is_time(by_name[name]):
            return by_name[name]
    return next((column for column in by_name.values() if is_time(column)), None)
