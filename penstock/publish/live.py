"""A live table as the publisher reads it: what comes next, and its rows in an order that repeats.

**How it works.** A *stretch* is a run of commits with one set of columns, or the whole of a version
when there is nothing before it. Its net change (``export.feed``) is computed on a small DuckDB and
given out ordered by key, what went before what came. Files of a commit never change, so the same
stretch gives the same rows in the same order after any crash: a position may point into it.

**What it does not do.** Guess. Where the log was cleaned past a position, or the table is another
one, it raises ``Rebuild``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError
from penstock.export.bench import Workbench, listed
from penstock.export.claim import Rebuild
from penstock.export.feed import COUNT, NET, net_change
from penstock.serve.catalog import Catalog
from penstock.serve.changes import newest_version, oldest_from, read_commit
from penstock.serve.snapshot import Column, identifier, open_snapshot

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["LiveTable", "Move", "NoSuchVersion", "Stretch", "outgrown", "require_keys"]

Row = Mapping[str, Any]

_MEMORY = "96MB"  # what a stretch needs beyond that goes to disk
_FETCHED = 1024  # rows in Python at a time
_LOOK_FOR_GAP_S = 5.0  # a gap shows only by listing the log, so not at every look


class NoSuchVersion(Exception):
    """There is nothing to read yet."""


@dataclass(frozen=True)
class Stretch:
    """Commits ``after`` (not included) to ``until``; after None, all rows of ``until``."""

    after: int | None
    until: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Move:
    """The net change of one key; of a table without keys, one row that came or went."""

    before: Row | None
    after: Row | None


class LiveTable:
    """One live table; nothing of it is kept open."""

    def __init__(self, settings: Settings, name: str, scratch: Path) -> None:
        self._settings = settings
        self._scratch = scratch
        self._catalog = Catalog.load(settings)
        self._ref = self._catalog.find(name.split("."))
        self.folder = self._catalog.folder(self._ref)
        self._listed_at = float("-inf")
        self._newest: tuple[float, int | None] = (float("-inf"), None)

    # --- which commits ----------------------------------------------------------------------
    def whole(self, version: int | None = None) -> Stretch:
        """All rows of a version, by default the newest.

        Raises:
            NoSuchVersion: the table has no data yet.
        """
        if not self._catalog.has_data(self._ref):
            raise NoSuchVersion(str(self._ref.label))
        ref = self._ref if version is None else self._pinned(version)
        found = open_snapshot(self._catalog, ref)
        return Stretch(None, found.version, found.columns)

    def _pinned(self, version: int) -> Any:
        return replace(self._ref, version=version, at=str(version))

    def following(
        self, version: int, columns: Sequence[Column], most: int, *, until: int | None = None
    ) -> Stretch | None:
        """The stretch after a version that had these columns; None: nothing is new.

        Args:
            most: commits, at most.
            until: where it has to end, if that was decided before.

        Raises:
            Rebuild: the log does not reach back so far.
        """
        first = read_commit(self.folder, version + 1)
        if first is None:
            self._look_for_gap(version)
            return None
        end, shown = version + 1, first.columns or tuple(columns)
        while end - version < most and end != until:
            commit = read_commit(self.folder, end + 1)
            if commit is None or commit.columns not in (None, shown):
                break
            end += 1
        if until is not None and end != until:
            raise Rebuild(f"commits up to {until} are no longer in the log")
        return Stretch(version, end, shown)

    def _look_for_gap(self, version: int) -> None:
        now = time.monotonic()
        if now - self._listed_at < _LOOK_FOR_GAP_S:
            return
        self._listed_at = now
        log = self.folder / "_delta_log"
        newest = newest_version(log)
        if newest is None or newest < version:
            raise Rebuild(f"the table is another one: its newest version is {newest}")
        later = oldest_from(log, version + 1)
        if later is not None and later > version + 1:
            raise Rebuild(f"the log no longer reaches back to version {version}")

    def mark(self, version: int) -> str:
        """The commit of a version, told by its contents; nothing if it is gone."""
        try:
            text = (self.folder / "_delta_log" / f"{version:020}.json").read_text()
        except FileNotFoundError:
            return ""
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def newest(self) -> int | None:
        """The newest version, as a look at the log some seconds ago had it."""
        now = time.monotonic()
        if now - self._newest[0] > _LOOK_FOR_GAP_S:
            self._newest = (now, newest_version(self.folder / "_delta_log"))
        return self._newest[1]

    # --- their rows -------------------------------------------------------------------------
    def moves(
        self, stretch: Stretch, keys: Sequence[str], *, strict: bool = False
    ) -> Iterator[Move]:
        """The net change of a stretch, by key; the same at every call.

        Args:
            strict: a key that names two rows is an error.

        Raises:
            Rebuild: a file or a commit of it is gone.
            DefinitionError: the table does not have the keys, or a key twice.
        """
        require_keys(self._ref.label, stretch.columns, keys)
        with Workbench(self._scratch, memory=_MEMORY, threads=1) as bench:
            self._fill(bench, stretch)
            rows = _ordered(bench, stretch.columns, keys)
            paired = _paired(self._ref.label, rows, keys, strict=strict)
            yield from paired if keys else _counted(rows)

    def _fill(self, bench: Workbench, stretch: Stretch) -> None:
        if stretch.after is not None:
            net_change(bench, self.folder, stretch.columns, stretch.after, stretch.until)
            return
        found = open_snapshot(self._catalog, self._pinned(stretch.until))
        names = listed(found.columns)
        bench.run(
            f"CREATE OR REPLACE TEMP TABLE {NET} AS SELECT {names}, count(*) AS {COUNT} "  # noqa: S608
            f"FROM ({bench.scan(found.columns, found.parts)}) GROUP BY {names}"
        )


def require_keys(label: str, columns: Sequence[Column], keys: Sequence[str]) -> None:
    """Raise DefinitionError unless the columns of a table have its keys."""
    names = {column.name for column in columns}
    if missing := [key for key in keys if key not in names]:
        raise DefinitionError(
            f"{label} has no column {', '.join(missing)} any more.",
            remedy="A topic keeps its keys: publish the table to another one.",
        )


_WIDER = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), ("FLOAT", "DOUBLE")


def outgrown(old: Sequence[Column], new: Sequence[Column]) -> list[str]:
    """Columns that are gone or of another type: rows written before do not fit any more.

    One that is new is null in them, and a number that was widened is the same number.
    """
    types = {column.name: column.type for column in new}
    return [
        column.name
        for column in old
        if (now := types.get(column.name)) != column.type and not _widened(column.type, now)
    ]


def _widened(was: str, now: str | None) -> bool:
    return any(
        was in family and now in family and family.index(was) < family.index(now)
        for family in _WIDER
    )


def _ordered(
    bench: Workbench, columns: Sequence[Column], keys: Sequence[str]
) -> Iterator[tuple[Row, int]]:
    """The rows of a net change and how many came, what went first."""
    names = [column.name for column in columns]
    by = [f"{identifier(name)} NULLS FIRST" for name in names]
    first = [f"{identifier(name)} NULLS FIRST" for name in keys]
    order = ", ".join([*first, COUNT, *by])  # all of it, so that it is the same every time
    cursor = bench.duck.execute(
        f"SELECT {listed(columns)}, {COUNT} FROM {NET} ORDER BY {order}"  # noqa: S608
    )
    while batch := cursor.fetchmany(_FETCHED):
        for values in batch:
            yield dict(zip(names, values, strict=False)), values[-1]


def _paired(
    label: str, rows: Iterator[tuple[Row, int]], keys: Sequence[str], *, strict: bool
) -> Iterator[Move]:
    """Rows of one key are neighbours: what went before what came."""
    for named, group in groupby(rows, key=lambda found: [found[0][key] for key in keys]):
        gone: list[Row] = []
        came: list[Row] = []
        for row, count in group:
            (gone if count < 0 else came).extend([row] * abs(count))
        if strict and max(len(gone), len(came)) > 1:
            told = dict(zip(keys, named, strict=True))
            raise DefinitionError(
                f"{label} has more than one row with the key {told}.",
                remedy="A changelog needs keys that name one row: mend the table's keys.",
            )
        yield from (Move(before, after) for before, after in zip_longest(gone, came))


def _counted(rows: Iterator[tuple[Row, int]]) -> Iterator[Move]:
    for row, count in rows:
        for _ in range(abs(count)):
            yield Move(row, None) if count < 0 else Move(None, row)
