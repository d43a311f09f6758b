"""Follow a live table: its changed rows, as commits land.

Purpose: what `penstock tail` prints, and what a test or a script can iterate over.

How it works: a Delta commit is one file whose name is the next version. Waiting for a change is
waiting for that name: one look at the disk per poll, however long the log is. Only the files the
commit names are read (``changes`` says which). A promote shows the rows that differ, a compaction
shows nothing.

What it does not do: remember where it was. Start again from a version with ``from_version``.

Known limitation: log clean-up may remove commits before a slow reader gets to them. It is told so
(a `Notice`), and goes on from the newest commit; the rows in between are in the table, not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from penstock.errors import UsageError
from penstock.serve.catalog import Catalog, TableRef
from penstock.serve.changes import Commit, newest_version, oldest_from, read_commit
from penstock.serve.sandbox import ctrl_c
from penstock.serve.snapshot import Column, Part, file_lists, open_snapshot, scan_sql

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Change", "Notice", "follow"]

POLL_S = 0.15
_BATCH = 2048
_LOOK_FOR_GAP_S = 2.0  # a gap shows only by listing the log, so not on every poll
_CHANGE_TYPE = "_change_type"
_KINDS = {"insert": "insert", "delete": "delete", "update_postimage": "update"}


@dataclass(frozen=True)
class Change:
    """One row that changed: ``kind`` is insert, update (the row as it is now) or delete."""

    version: int
    timestamp_ms: int | None
    kind: str
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Notice:
    """Something a reader of the changes has to know: ``text`` is for people."""

    text: str


def follow(
    settings: Settings,
    table: str,
    *,
    from_version: int | None = None,
    poll_s: float = POLL_S,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Change | Notice]:
    """Yield the changes of ``table`` for ever, or until ``stopped()``.

    Args:
        settings: the stack the table is in.
        table: its name, ``layer.table``.
        from_version: the first commit to show; by default the next one.
        poll_s: how often to look for a commit.
        stopped: asked between looks; True ends the iteration.

    Raises:
        UsageError: no such table, or ``from_version`` is ahead of it.
    """
    catalog = Catalog.load(settings)
    ref = catalog.find(table.split("."))
    return _Follower(catalog, ref, poll_s, stopped).run(from_version)


class _Follower:
    """The place in one table's log, and a small database to read files with."""

    def __init__(
        self, catalog: Catalog, ref: TableRef, poll_s: float, stopped: Callable[[], bool]
    ) -> None:
        self._catalog = catalog
        self._ref = ref
        self._folder = catalog.folder(ref)
        self._log = self._folder / "_delta_log"
        self._poll_s = poll_s
        self._stopped = stopped
        self._columns: tuple[Column, ...] = ()
        self._next_listing = 0.0

    def run(self, from_version: int | None) -> Iterator[Change | Notice]:
        with duckdb.connect(
            config={"threads": 1, "temp_directory": "", "python_enable_replacements": False}
        ) as database:
            database.execute("SET TimeZone = 'UTC'")
            yield from self._changes(database, from_version)

    def _changes(
        self, database: duckdb.DuckDBPyConnection, from_version: int | None
    ) -> Iterator[Change | Notice]:
        if newest_version(self._log) is None:
            yield Notice(f"{self._ref.label} is declared, no data yet: waiting for its first rows.")
            from_version = 0 if from_version is None else from_version
        else:
            self._columns = open_snapshot(self._catalog, self._ref).columns
        version = self._first(from_version)
        while True:
            found = yield from self._await(version)
            if found is None:
                return
            self._columns = found.columns or self._columns
            yield from self._rows(database, found)
            version = found.version + 1

    def _first(self, asked: int | None) -> int:
        newest = newest_version(self._log)
        following = 0 if newest is None else newest + 1
        if asked is not None and asked > following:
            raise UsageError(
                f"{self._ref.label} has no version {asked} yet; its newest is {newest}.",
                remedy=f"Use --from-version {following} or lower.",
            )
        return following if asked is None else asked

    def _await(self, version: int) -> Generator[Notice, None, Commit | None]:
        """Wait until commit ``version`` is there; return it, or a later one past a gap."""
        while not self._stopped():
            commit = read_commit(self._folder, version)
            if commit is not None:
                return commit
            newest = self._past_gap(version)
            if newest is not None:
                yield Notice(_gap(self._ref, version, newest))
                version = newest
                continue
            time.sleep(self._poll_s)
        return None

    def _past_gap(self, version: int) -> int | None:
        """The newest commit, if ``version`` is gone for good: later ones are there, it is not."""
        if time.monotonic() < self._next_listing:
            return None
        self._next_listing = time.monotonic() + _LOOK_FOR_GAP_S
        oldest = oldest_from(self._log, version)
        return None if oldest in (None, version) else newest_version(self._log)

    # --- rows -----------------------------------------------------------------------------
    def _rows(
        self, database: duckdb.DuckDBPyConnection, commit: Commit
    ) -> Iterator[Change | Notice]:
        try:
            for kind, row in self._told(database, commit.changed):
                yield Change(commit.version, commit.timestamp_ms, kind, row)
            for row in _read(database, self._columns, commit.deleted):
                yield Change(commit.version, commit.timestamp_ms, "delete", row)
            for row in _read(database, self._columns, commit.inserted):
                yield Change(commit.version, commit.timestamp_ms, "insert", row)
        except duckdb.IOException:
            yield Notice(
                f"{self._ref.label} version {commit.version}: a file of this commit is gone, "
                "its rows cannot all be shown."
            )

    def _told(
        self, database: duckdb.DuckDBPyConnection, parts: Sequence[Part]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Rows of change files; the image of a row before its update is left out."""
        columns = (*self._columns, Column(_CHANGE_TYPE, "VARCHAR"))
        for row in _read(database, columns, parts):
            kind = _KINDS.get(str(row.pop(_CHANGE_TYPE)))
            if kind is not None:
                yield kind, row


def _read(
    database: duckdb.DuckDBPyConnection, columns: Sequence[Column], parts: Sequence[Part]
) -> Iterator[dict[str, Any]]:
    if not parts or not columns:
        return
    names = [column.name for column in columns]
    database.execute("SET VARIABLE files = $1", [file_lists(parts)])
    with ctrl_c():
        cursor = database.execute(scan_sql(columns, parts, "files"))
        while batch := cursor.fetchmany(_BATCH):
            for row in batch:
                yield dict(zip(names, row, strict=True))


def _gap(ref: TableRef, version: int, newest: int) -> str:
    last = newest - 1
    gone = f"version {version} is" if last == version else f"versions {version} to {last} are"
    return (
        f"{ref.label}: {gone} no longer in the log (cleaned up), so those changes cannot be "
        f"shown; going on from version {newest}. The table itself has every row."
    )
