"""Rows of a live table by key or by range, quickly, each answer of exactly one version.

Purpose: what `penstock get` and the read API answer with. One reader is made per process and asked
from any number of threads.

How it works: the table's log is held in memory and followed (``live_log``), so a commit or a
promote is seen by the next question. Its statistics leave out files by range, hashes of keys leave
out the rest of them where a single row is meant (``key_index``), and DuckDB reads the row groups
that remain of the one or two files left. `tests/bench/get.py` measures it.

What it does not do: take SQL. Names come from the manifest and the schema, values are bound, and
the engine may open nothing outside the warehouse.

A file that was cleaned up between the look at the log and its reading is not an error: the question
is asked again of the newest version. Of an older version, asked for by name or by a cursor, it is:
that version is gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from penstock.errors import ServiceFailed, UsageError
from penstock.serve import sandbox
from penstock.serve.asked import PLACES, Ask, Cursor, Plan, plan
from penstock.serve.catalog import Catalog, TableRef, UnknownTable
from penstock.serve.limits import MEMORY, Gone, gone, patience, require_narrow
from penstock.serve.live_log import LiveFile, LiveLog, LogState
from penstock.serve.shape import Entry, Manifest, Shape, shape_of
from penstock.serve.snapshot import (
    CleanedUp,
    Column,
    Part,
    file_lists,
    identifier,
    open_snapshot,
    scan_sql,
)

if TYPE_CHECKING:
    from penstock.serve.key_index import Hashes, KeyIndex
    from penstock.settings import Settings

__all__ = ["Answer", "Opened", "Reader"]

_FEW = 4  # files that are read rather than searched for
_QUICK_BYTES = 64 << 20  # that need no watch
_TRIES = 4
_KEPT = 16  # older versions somebody is paging through
_LONGEST_NAME = 200
_ADDS = (
    "SELECT add.path, add.size, add.stats, add.partitionValues FROM read_parquet($1) "
    "WHERE add.path IS NOT NULL"
)
_ABOUT = (
    'SELECT "metaData", protocol FROM read_parquet($1) '
    'WHERE "metaData".id IS NOT NULL OR protocol.minReaderVersion IS NOT NULL'
)


@dataclass(frozen=True)
class Opened:
    """A question and the version it will be answered from."""

    ask: Ask
    ref: TableRef
    state: LogState
    shape: Shape
    cursor: Cursor | None

    @property
    def pinned(self) -> bool:
        return self.cursor is not None or self.ref.version is not None or self.ref.time is not None

    @property
    def plan(self) -> Plan:
        return plan(self.ask, self.shape, self.cursor)


@dataclass(frozen=True)
class Answer:
    """Rows of one version, and where to go on."""

    opened: Opened
    plan: Plan
    rows: Sequence[Sequence[Any]]
    next: str | None
    files_read: int

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.plan.shown)


class Reader:
    """Answers questions about the tables of one stack.

    Args:
        index: where hashes of keys are kept; None for a process that asks once.
    """

    def __init__(self, settings: Settings, index: KeyIndex | None = None) -> None:
        self._settings = settings
        self._index = index
        self._manifest = Manifest(settings)
        self._catalog: tuple[object, Catalog] | None = None
        self._logs: dict[Path, LiveLog] = {}
        self._kept: OrderedDict[tuple[Path, int], LogState] = OrderedDict()
        self._lock = threading.Lock()
        self._idle: deque[duckdb.DuckDBPyConnection] = deque()
        self._warehouse = _on_disk(settings)
        self._database = _locked(self._warehouse)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().close()
        self._database.close()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection nobody else uses now: they share the database and its limits."""
        database = self._database
        try:
            cursor = self._idle.pop()
        except IndexError:  # asked for, not looked for: another thread may take the last one
            cursor = database.cursor()
        try:
            yield cursor
        except (duckdb.InternalException, duckdb.FatalException) as error:
            with self._lock:  # a database in which that happened may answer nothing any more
                if self._database is database:
                    self._idle, self._database = deque(), _locked(self._warehouse)
            raise ServiceFailed(
                f"the engine failed on this: {str(error).splitlines()[0]}",
                remedy="Ask another way, for instance with `penstock query`, and report it.",
            ) from None
        except BaseException:
            self._idle.append(cursor)
            raise
        self._idle.append(cursor)

    # --- tables ---------------------------------------------------------------------------
    def catalog(self) -> Catalog:
        """The tables there are; made anew when the manifest is another."""
        mark = self._manifest.mark
        if self._catalog is None or self._catalog[0] != mark:
            self._catalog = (mark, Catalog.load(self._settings))
        return self._catalog[1]

    def entry(self, label: str) -> Entry:
        """What the manifest says of a table; nothing of one it does not know."""
        return self._manifest.entries().get(label, {})

    def _found(self, table: str) -> tuple[Catalog, TableRef]:
        if len(table) > _LONGEST_NAME:
            raise UnknownTable("no table has such a long name.", remedy="See `penstock tables`.")
        parts = table.split(".", 1)
        try:
            return self.catalog(), self.catalog().find(parts)
        except UnknownTable:
            self._catalog = None  # it may have been made since
            return self.catalog(), self.catalog().find(parts)

    @staticmethod
    def _folder(catalog: Catalog, ref: TableRef) -> Path:
        folder = catalog.folder(ref)
        assert isinstance(folder, Path)  # noqa: S101 - the warehouse is on a disk
        return folder

    def _log(self, catalog: Catalog, ref: TableRef) -> LiveLog:
        folder = self._folder(catalog, ref)
        with self._lock:
            return self._logs.setdefault(folder, LiveLog(ref.label, folder, self._checkpoint))

    def _checkpoint(self, path: str) -> list[dict[str, Any]]:
        """The actions of a checkpoint that say what the table holds."""
        try:
            with self._cursor() as cursor:
                adds = cursor.execute(_ADDS, [path]).fetchall()
                others = cursor.execute(_ABOUT, [path]).fetchall()
        except duckdb.IOException:
            raise FileNotFoundError(path) from None
        names = ("path", "size", "stats", "partitionValues")
        told = [{"add": dict(zip(names, add, strict=True))} for add in adds]
        for metadata, protocol in others:
            told += [{"metaData": metadata}] if (metadata or {}).get("id") else []
            told += [{"protocol": protocol}] if protocol else []
        return told

    # --- opening --------------------------------------------------------------------------
    def open(self, ask: Ask) -> Opened:
        """Decide on the version a question is answered from; nothing of it is read yet.

        Raises:
            UsageError: no such table, no data yet, keys that make no sense.
            Gone: the version is not kept any more.
        """
        catalog, ref = self._found(ask.table)
        cursor = Cursor.read(ask)
        log = self._log(catalog, ref)
        if cursor is not None:
            state = self._older(log, self._folder(catalog, ref), cursor.version)
            if state is None or state.table_id != cursor.table_id:
                raise gone(ref.label, cursor.version)
        else:
            state = self._state(catalog, ref, log)
        opened = Opened(ask, ref, state, self._shape(ref, state), cursor)
        opened.plan  # noqa: B018 - what is wrong with it is told before anything is read
        return opened

    def state(self, table: str) -> tuple[TableRef, LogState, Shape]:
        """The newest version of a table (or the one its name asks for), and its keys."""
        catalog, ref = self._found(table)
        state = self._state(catalog, ref, self._log(catalog, ref))
        return ref, state, self._shape(ref, state)

    def _state(self, catalog: Catalog, ref: TableRef, log: LiveLog) -> LogState:
        if ref.version is None and ref.time is None:
            state = log.newest()
        else:
            # Which version a moment means is decided where `penstock query` decides it.
            version = self._version_of(catalog, ref)
            state = self._older(log, self._folder(catalog, ref), version)
            if state is None:
                raise gone(ref.label, version)
        if state is None:
            raise catalog.no_data(ref)
        return state

    @staticmethod
    def _version_of(catalog: Catalog, ref: TableRef) -> int:
        try:
            return open_snapshot(catalog, ref).version
        except CleanedUp as error:
            raise Gone(error.message, remedy=error.remedy) from None

    def _older(self, log: LiveLog, folder: Path, version: int) -> LogState | None:
        with self._lock:
            kept = self._kept.get((folder, version))
        state = kept or log.at(version)
        if state is not None:
            self._keep(state)
        return state

    def _keep(self, state: LogState) -> None:
        with self._lock:
            self._kept[(state.folder, state.version)] = state
            self._kept.move_to_end((state.folder, state.version))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _shape(self, ref: TableRef, state: LogState) -> Shape:
        label = f"{ref.layer}.{ref.name}"
        entry = self.entry(label)
        if ref.revision:
            entry = {**entry, **self._meaning(label, ref.revision)}
        return shape_of(label, entry, state.columns)

    def _meaning(self, label: str, revision: str) -> Entry:
        """What a revision that is not live declares: its keys may be others."""
        from contextlib import closing

        from penstock.runtime.registry import Registry

        with closing(Registry(self._settings)) as registry:
            for found in registry.revisions():
                if (found.table, found.revision) == (label, revision):
                    meaning: Entry = found.declared.get("meaning", {})
                    return meaning
        return {}

    # --- reading --------------------------------------------------------------------------
    def look(self, ask: Ask) -> Answer:
        """Open and read."""
        return self.read(self.open(ask))

    def read(self, opened: Opened) -> Answer:
        """The rows.

        Raises:
            TooWide: it would touch too much of the table.
            Gone: the version was cleaned up.
        """
        for tries in range(_TRIES):
            try:
                return self._rows(opened)
            except duckdb.IOException as error:
                if opened.pinned:
                    raise gone(opened.ref.label, opened.state.version) from None
                reason = error
            catalog, ref = self._found(opened.ask.table)
            state = self._log(catalog, ref).newest(anew=tries > 0)
            if state is None:
                raise catalog.no_data(ref)
            opened = replace(opened, state=state, shape=self._shape(ref, state))
        raise ServiceFailed(
            f"a file of {opened.ref.label} version {opened.state.version} cannot be read: "
            f"{str(reason).splitlines()[0]}",
            remedy="Try again; if it stays so, look at the table with `penstock doctor`.",
        )

    def _rows(self, opened: Opened) -> Answer:
        planned, state = opened.plan, opened.state
        files = self._files(planned, state)
        folder = str(state.folder)
        rows: list[Any] = []
        if files:
            scan = scan_sql(planned.shape.columns, _parts(files), "files", places=PLACES)
            sql, values = planned.statement(scan, folder)
            big = len(files) > _FEW or sum(file.size for file in files) > _QUICK_BYTES
            with self._cursor() as cursor, patience(cursor, opened.ref.label, watched=big):
                cursor.execute("SET VARIABLE files = $1", [file_lists(_parts(files))])
                rows = cursor.execute(sql, values).fetchall()
        following = None
        if len(rows) > planned.limit:
            rows = rows[: planned.limit]
            place = planned.place(rows[-1], folder)
            signature = opened.ask.signature
            following = Cursor(state.version, state.table_id, signature, place).text()
            self._keep(state)
        width = len(planned.shown)
        return Answer(opened, planned, [row[:width] for row in rows], following, len(files))

    def _files(self, planned: Plan, state: LogState) -> Sequence[LiveFile]:
        files: Sequence[LiveFile] = planned.files(state)
        if planned.is_point and self._index is not None and len(files) > _FEW:
            files = self._searched(self._index, planned, state, files)
        if not planned.is_point:
            require_narrow(planned.shape.label, files)
        return files

    def _searched(
        self, index: KeyIndex, planned: Plan, state: LogState, files: Sequence[LiveFile]
    ) -> Sequence[LiveFile]:
        keys = planned.shape.keys
        if any(column.partition for column in state.columns):
            return files  # their files are told apart by the log already
        typed = ", ".join(f"CAST(${n} AS {key.type})" for n, key in enumerate(keys, start=1))
        with self._cursor() as cursor:
            found = cursor.execute(f"SELECT hash({typed})", list(planned.point)).fetchone()
        wanted = int(found[0]) if found else 0
        name = (state.folder, tuple((key.name, key.type) for key in keys))
        return index.holding(name, wanted, files, lambda fresh: self._hashes(keys, fresh))

    def _hashes(self, keys: Sequence[Column], files: Sequence[LiveFile]) -> list[Hashes]:
        import numpy as np

        parts = _parts(files)
        scan = scan_sql(keys, parts, "files", places='file_index AS "_file"')
        named = ", ".join(identifier(key.name) for key in keys)
        sql = f'SELECT hash({named}) AS hash, "_file" AS file FROM ({scan})'  # noqa: S608
        with self._cursor() as cursor:
            cursor.execute("SET VARIABLE files = $1", [file_lists(parts)])
            made = cursor.execute(sql).fetchnumpy()
        order = np.lexsort((made["hash"], made["file"]))
        hashes, of = made["hash"][order], made["file"][order]
        ends = np.searchsorted(of, np.arange(len(files) + 1))
        return [hashes[ends[n] : ends[n + 1]].copy() for n in range(len(files))]


def _on_disk(settings: Settings) -> Path:
    """The folder of the tables: what is followed here is files, and fast because they are near."""
    if isinstance(settings.warehouse, Path):
        return settings.warehouse
    raise UsageError(
        f"rows are looked up by key where tables are on a disk; these are in {settings.warehouse}.",
        remedy="Ask with `penstock query`, or export the table: `penstock export`.",
    )


def _locked(warehouse: Path) -> duckdb.DuckDBPyConnection:
    """An engine that may open the files of tables, and nothing else for ever."""
    database = sandbox.connect(MEMORY)
    database.execute("SET allowed_directories = $1", [[str(warehouse)]])
    # DuckDB 2.0.0 fails inside when it fetches the rows of a page by their place in the file.
    database.execute("SET disabled_optimizers = 'late_materialization'")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def _parts(files: Sequence[LiveFile]) -> list[Part]:
    groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for file in files:
        groups.setdefault(file.partition, []).append(file.path)
    return [Part(tuple(paths), dict(values)) for values, paths in groups.items()]
