"""The real wall: a DuckDB that can read the files of the named tables and do nothing else.

How it works: a fresh in-memory database per query. The parquet files of the pinned snapshots are
the only paths it may touch; then external access goes off, the configuration is locked and a
read-only transaction begins. No extension can be fetched or loaded, Python variables are not
visible to SQL, nothing spills to disk, memory is capped.

One thing DuckDB does not do: a path it may read it may also write (``COPY`` inside a WITH would
overwrite a live data file). So before anything runs, the query is planned and the plan must hold
no operator that writes; that is DuckDB's own view of what it is about to do, independent of what
``sqlcheck`` made of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from penstock.errors import QueryRefused
from penstock.serve.snapshot import Snapshot, file_lists, identifier, scan_sql

__all__ = ["connect", "ctrl_c", "expose", "refuse_writes"]

_CONFIG: dict[str, str | bool | int] = {
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "allow_persistent_secrets": False,
    "temp_directory": "",
    "max_temp_directory_size": "0B",
    "http_proxy": "127.0.0.1:9",  # nobody; else the environment's, perhaps with a password
    "enable_external_file_cache": False,  # one query per database: a cache only costs
}
_WRITES = re.compile(r"COPY|INSERT|DELETE|UPDATE|MERGE_INTO|CREATE|DROP|ALTER|ATTACH|EXPORT|VACUUM")
_SCANS = re.compile(r"READ_(?!PARQUET$)|.*(CSV|JSON|TEXT|BLOB)_SCAN")


def connect(memory_limit: str) -> duckdb.DuckDBPyConnection:
    """A new database with every knob at its safest; still able to be told which files to read."""
    connection = duckdb.connect(config={**_CONFIG, "memory_limit": memory_limit})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # drawn on stdout, among the rows
    return connection


def expose(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot]) -> None:
    """Make each snapshot a view named ``layer.table``, then close and lock everything else."""
    for layer in sorted({snapshot.ref.layer for snapshot in snapshots}):
        connection.execute(f"CREATE SCHEMA {identifier(layer)}")
    for number, snapshot in enumerate(snapshots):
        variable = f"files_{number}"
        connection.execute(f"SET VARIABLE {variable} = $1", [file_lists(snapshot.parts)])
        view = f"{identifier(snapshot.ref.layer)}.{identifier(snapshot.ref.typed)}"
        scan = scan_sql(snapshot.columns, snapshot.parts, variable)
        connection.execute(f"CREATE VIEW {view} AS {scan}")
    _lock(connection, [file for snapshot in snapshots for file in snapshot.files])


def _lock(connection: duckdb.DuckDBPyConnection, files: list[str]) -> None:
    if files:
        connection.execute("SET allowed_paths = $1", [files])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    connection.execute("BEGIN TRANSACTION READ ONLY")


def refuse_writes(connection: duckdb.DuckDBPyConnection, body: str) -> None:
    """Plan ``body`` and look at the operators; planning opens no more than one file a table.

    Raises:
        QueryRefused: the text holds more than one statement, or the plan would write or read
            anything but parquet.
    """
    if _kinds(connection, body) != [duckdb.StatementType.SELECT]:
        raise QueryRefused("only one reading statement is allowed.", remedy="Run one SELECT.")
    for name in _operators(_plan(connection, body)):
        if _WRITES.search(name) or _SCANS.match(name):
            raise QueryRefused(
                f"the plan of this query holds {name}: queries only read live tables.",
                remedy="Name tables as layer.table and leave everything else out.",
            )


@contextmanager
def ctrl_c() -> Iterator[None]:
    """DuckDB turns Ctrl-C during its work into a RuntimeError; turn it back."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


def _kinds(connection: duckdb.DuckDBPyConnection, body: str) -> list[duckdb.StatementType | None]:
    try:
        return [statement.type for statement in connection.extract_statements(body)]
    except ValueError:  # a kind the Python binding has no name for, such as UPDATE EXTENSIONS
        return [None]


def _plan(connection: duckdb.DuckDBPyConnection, body: str) -> list[Any]:
    try:
        rows = connection.execute(f"EXPLAIN (FORMAT json)\n{body}").fetchall()
    except duckdb.Error as error:
        # The query as typed starts one line higher than the one planned.
        text = re.sub(r"\bLINE (\d+):", lambda at: f"LINE {int(at[1]) - 1}:", str(error))
        raise type(error)(text) from None
    return [json.loads(plan) for _, plan in rows]


def _operators(plans: Iterable[Any]) -> Iterator[str]:
    pending = list(plans)
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.get("children", []))
            yield str(item.get("name", "")).upper().strip()
            yield str((item.get("extra_info") or {}).get("Function", "")).upper()
