"""SQL over the live tables, read-only and capped.

Purpose: an analyst names tables as ``layer.table`` and gets rows; nothing else can be reached.

How it works: the text is parsed and checked (``sqlcheck``), each table it names, and no other, is
pinned to its newest version (``snapshot``), a locked database is built around those files
(``sandbox``), and the query runs under a watch (``guard``). Readers take no lock: whatever is
committed meanwhile, or promoted, the query sees one version of each table, whole.

What it does not do: pin several tables to one moment. Each is read at the version that was newest
when it was opened, a few milliseconds apart; the versions are part of the result.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from penstock.errors import PenstockError, QueryRefused, UsageError
from penstock.serve import sandbox
from penstock.serve.catalog import Catalog
from penstock.serve.guard import Guard, LastResort
from penstock.serve.moments import spell
from penstock.serve.snapshot import Snapshot, open_snapshot
from penstock.serve.sqlcheck import Checked, check

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["OpenQuery", "QueryResult", "open_query", "run_query"]

Row = tuple[Any, ...]

_BATCH = 2048
_LEAST_MEMORY = 32 * 10**6
_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", start=1)}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class QueryResult:
    """The rows of a finished query, and what it read."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[Row]
    truncated: bool
    elapsed_s: float
    versions: Mapping[str, int]
    kind: str = "select"


@dataclass
class OpenQuery:
    """A running query: columns are known, rows come in batches as they are asked for."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    versions: Mapping[str, int]
    kind: str
    _batches: Iterator[list[Row]] = field(repr=False)
    _clock: Any = field(default=lambda: 0.0, repr=False)
    truncated: bool = False

    @property
    def elapsed_s(self) -> float:
        """Seconds of work so far, reading the logs included."""
        return float(self._clock())

    def batches(self, max_rows: int | None = None) -> Iterator[list[Row]]:
        """The rows, at most ``max_rows`` of them; then ``truncated`` tells if any are left."""
        left = max_rows
        for batch in self._batches:
            if left is not None and len(batch) > left:
                self.truncated = True
                if left:
                    yield batch[:left]
                return
            left = None if left is None else left - len(batch)
            yield batch


def run_query(
    settings: Settings,
    sql: str,
    *,
    timeout_s: float = 30,
    memory_limit: str = "1GB",
    max_rows: int | None = None,
    last_resort: LastResort | None = None,
) -> QueryResult:
    """Run one reading statement over live tables and return all its rows.

    Args:
        settings: the stack whose tables are read.
        sql: one SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN.
        timeout_s: cap on the seconds of work, log reading included.
        memory_limit: cap on the engine's memory, such as ``1GB``; nothing spills to disk.
        max_rows: stop after so many rows; ``truncated`` says whether there were more.
        last_resort: called when the engine ignores its caps; may end the process.

    Raises:
        QueryRefused: the query does anything but read live tables, or passed a cap.
        UsageError: wrong SQL, an unknown table, or one without data.
    """
    with open_query(
        settings,
        sql,
        timeout_s=timeout_s,
        memory_limit=memory_limit,
        last_resort=last_resort,
    ) as query:
        rows = [row for batch in query.batches(max_rows) for row in batch]
        return QueryResult(
            query.columns,
            query.types,
            rows,
            query.truncated,
            query.elapsed_s,
            query.versions,
            query.kind,
        )


@contextmanager
def open_query(
    settings: Settings,
    sql: str,
    *,
    timeout_s: float = 30,
    memory_limit: str = "1GB",
    last_resort: LastResort | None = None,
) -> Iterator[OpenQuery]:
    """As `run_query`, but rows are fetched as they are consumed, so any number can flow through."""
    memory_bytes = _bytes_of(memory_limit)
    started = time.monotonic()
    with sandbox.connect(f"{memory_bytes}B") as connection:
        checked = check(connection, spell(sql))
        catalog = Catalog.load(settings)
        if checked.kind == "show tables":
            yield _show_tables(catalog, time.monotonic() - started)
            return
        snapshots = _pin(catalog, checked)
        with Guard(
            connection.interrupt,
            timeout_s=timeout_s,
            spent_s=time.monotonic() - started,
            memory_bytes=memory_bytes,
            last_resort=last_resort,
        ) as guard:
            yield _start(connection, guard, checked, snapshots)


def _pin(catalog: Catalog, checked: Checked) -> list[Snapshot]:
    refs = dict.fromkeys(catalog.find(parts) for parts in checked.tables)
    return [open_snapshot(catalog, ref) for ref in refs]


def _start(
    connection: duckdb.DuckDBPyConnection,
    guard: Guard,
    checked: Checked,
    snapshots: Sequence[Snapshot],
) -> OpenQuery:
    versions = {snapshot.ref.label: snapshot.version for snapshot in snapshots}
    with _translated(guard, versions), guard.working():
        sandbox.expose(connection, snapshots)
        sandbox.refuse_writes(connection, checked.body)
        cursor = connection.execute(checked.sql)
    described = connection.description or []
    return OpenQuery(
        columns=tuple(str(column[0]) for column in described),
        types=tuple(str(column[1]) for column in described),
        versions=versions,
        kind=checked.kind,
        _batches=_fetch(cursor, guard, versions),
        _clock=lambda: guard.used_s,
    )


def _fetch(
    cursor: duckdb.DuckDBPyConnection, guard: Guard, versions: Mapping[str, int]
) -> Iterator[list[Row]]:
    while True:
        with _translated(guard, versions), guard.working():
            batch = cursor.fetchmany(_BATCH)
        if not batch:
            return
        yield batch


def _show_tables(catalog: Catalog, elapsed_s: float) -> OpenQuery:
    """SHOW TABLES from the catalog: the database of a query holds only the tables it names."""
    rows: list[Row] = [
        (ref.layer, ref.name, "live" if catalog.has_data(ref) else "declared, no data yet")
        for ref in catalog
    ]
    return OpenQuery(
        columns=("layer", "table", "state"),
        types=("VARCHAR",) * 3,
        versions={},
        kind="show tables",
        _batches=iter([rows] if rows else []),
        _clock=lambda: elapsed_s,
    )


# --- errors and sizes ---------------------------------------------------------------------
@contextmanager
def _translated(guard: Guard, versions: Mapping[str, int]) -> Iterator[None]:
    """Engine errors as ours; a passed cap explains any error that follows from it."""
    try:
        with sandbox.ctrl_c():
            yield
    except duckdb.Error as error:
        if guard.cancelled:
            raise KeyboardInterrupt from None
        raise (guard.broken or _our_error(error, versions)) from None


def _our_error(error: duckdb.Error, versions: Mapping[str, int]) -> PenstockError:
    text = str(error).strip()
    match error:
        case duckdb.OutOfMemoryException():
            return QueryRefused(
                "the query needs more memory than its cap.",
                remedy="Aggregate or filter earlier, or raise it with --memory.",
            )
        case duckdb.PermissionException():
            return QueryRefused(
                f"refused by the engine: {text}",
                remedy="Queries read live tables only, named as layer.table.",
            )
        case duckdb.InterruptException():
            return QueryRefused("the query was interrupted.", remedy="Run it again.")
        case duckdb.IOException():
            return QueryRefused(
                f"a data file could not be read ({_listed(versions)}): {text}",
                remedy="It may have been cleaned up meanwhile; run the query again.",
            )
        case duckdb.InternalException() | duckdb.FatalException():
            return QueryRefused(
                f"the engine failed on this query: {text.splitlines()[0]}",
                remedy="Write it another way, and report it with the query.",
            )
        case _:
            return UsageError(f"SQL error: {text}", remedy="Columns: DESCRIBE layer.table.")


def _listed(versions: Mapping[str, int]) -> str:
    return ", ".join(f"{name} version {version}" for name, version in versions.items())


def _bytes_of(size: str) -> int:
    """Bytes in a size such as ``1GB`` or ``512MiB``.

    Raises:
        UsageError: it is not a size, or too small for the engine to start.
    """
    found = _SIZE.fullmatch(size)
    count = float(found[1]) * _UNITS[found[2].upper()] if found else 0
    if count < _LEAST_MEMORY:
        raise UsageError(
            f"{size!r} is not a memory size of at least {_LEAST_MEMORY // 10**6}MB.",
            remedy="Write it as 512MB or 2GB.",
        )
    return int(count)
