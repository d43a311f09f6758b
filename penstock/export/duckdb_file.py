"""One DuckDB file with all exported tables, exchanged whole.

**How it works.** DuckDB lets one process write a file or many read it, so an export never writes
the file analysts have open. It makes a copy (a reflink where the disk can, else bytes), changes the
copy table by table, each in a transaction with its claim, and renames it over the old one. Whoever
has the old file open goes on with it; whoever opens the path finds all tables of one export. A
crash leaves a copy nobody looks at, which the next export removes.

**A changed row** is found by comparing all columns (null equal to null, duplicates counted) and
deleted by its row id; what came is inserted. DuckDB marks deleted rows and rewrites a row group
when many are gone: after 300 exports of 1 % each a file was three times as big as a fresh one, and
no more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb

from penstock.errors import EnvironmentProblem, ServiceFailed
from penstock.export.bench import Workbench, listed
from penstock.export.claim import Claim, Rebuild, Sum
from penstock.export.feed import COUNT, NET, Net, Step
from penstock.export.live import Live
from penstock.export.place import synced
from penstock.serve.snapshot import Column, identifier, literal

__all__ = ["DuckdbFile", "copied"]

FILE = "live.duckdb"  # DuckDB calls the database by it: not the name of a schema in it
_CLAIMS = "penstock.exports"
_FICLONE = 0x40049409  # share the blocks of another file (btrfs, xfs, …)
_SPARE = 64 << 20  # bytes that must stay free beside a copy


class DuckdbFile:
    """The target ``duckdb``."""

    name = "duckdb"
    whole = False

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.place = str(self.path)
        self._next = folder / f".{FILE}.next"
        self._open = False
        self._kept = False

    # --- reading --------------------------------------------------------------------------
    def claims(self) -> dict[str, Claim]:
        if not self.path.exists():
            return {}
        try:
            with duckdb.connect(self.place, read_only=True) as file:
                rows = file.execute(f"SELECT claim FROM {_CLAIMS}").fetchall()  # noqa: S608
        except duckdb.CatalogException:
            return {}  # not a file of ours; it will be written anew
        except duckdb.IOException as error:
            if _in_use(error):
                raise ServiceFailed(
                    f"{self.place} is open for writing in another process.",
                    remedy="Close it there and open it read-only (duckdb -readonly).",
                ) from None
            return {}  # torn; the same
        found = [Claim.from_json(text) for (text,) in rows]
        return {claim.table: claim for claim in found}

    # --- writing --------------------------------------------------------------------------
    def begin(self, bench: Workbench, live: Live) -> None:
        if not self._open:
            self._prepare(bench)
        bench.run("BEGIN")
        bench.run(f"CREATE SCHEMA IF NOT EXISTS out.{identifier(live.layer)}")

    def _prepare(self, bench: Workbench) -> None:
        _remove(self._next)
        if self.path.exists():
            copied(self.path, self._next)
        try:
            bench.run(f"ATTACH {literal(str(self._next))} AS out")
        except duckdb.Error:  # torn or foreign: what analysts have stays until a new one is whole
            _remove(self._next)
            bench.run(f"ATTACH {literal(str(self._next))} AS out")
        self._open = True
        bench.run("CREATE SCHEMA IF NOT EXISTS out.penstock")
        bench.run(
            f"CREATE TABLE IF NOT EXISTS out.{_CLAIMS} (table_name VARCHAR, delta_version BIGINT, "
            "revision VARCHAR, rows BIGINT, checksum VARCHAR, exported_at TIMESTAMPTZ, "
            "mode VARCHAR, rows_written BIGINT, verified VARCHAR, reason VARCHAR, claim VARCHAR)"
        )

    def replace(self, bench: Workbench, live: Live) -> None:
        bench.run(
            f"CREATE OR REPLACE TABLE {_table(live)} AS {bench.scan(live.columns, live.parts)}"
        )

    def apply(self, bench: Workbench, live: Live, net: Net) -> tuple[str, ...]:
        altered = [text for step in net.steps for text in _alter(bench, live, step)]
        if net.gone:
            self._delete(bench, live, net)
        names = listed(net.columns)
        if net.added:
            bench.run(
                f"INSERT INTO {_table(live)} ({names}) SELECT {names} FROM "  # noqa: S608
                f"(SELECT *, unnest(range({COUNT})) FROM {NET} WHERE {COUNT} > 0)"
            )
        return tuple(altered)

    def _delete(self, bench: Workbench, live: Live, net: Net) -> None:
        same = " AND ".join(
            f"t.{name} IS NOT DISTINCT FROM g.{name}"
            for name in (identifier(column.name) for column in net.columns)
        )
        ((deleted,),) = bench.run(
            f"""DELETE FROM {_table(live)} WHERE rowid IN (
                WITH gone AS (
                    SELECT *, row_number() OVER () AS __penstock_number
                    FROM {NET} WHERE {COUNT} < 0),
                held AS (
                    SELECT t.rowid AS held_row, -g.{COUNT} AS times, row_number() OVER (
                        PARTITION BY g.__penstock_number) AS nth
                    FROM {_table(live)} t JOIN gone g ON {same})
                SELECT held_row FROM held WHERE nth <= times)"""  # noqa: S608
        )
        if deleted != net.gone:
            raise Rebuild(f"{net.gone - deleted} of {net.gone} rows that went were not in the file")

    def measured(self, bench: Workbench, live: Live) -> Sum:
        try:
            return bench.sum_of(_table(live), live.columns)
        except duckdb.Error as error:
            raise Rebuild(f"the exported table cannot be read ({_first(error)})") from None

    def prove(self, bench: Workbench, live: Live) -> None:
        """Nothing more to do: ``measured`` hashes every column of every row."""

    def keep(self, bench: Workbench, live: Live, claim: Claim) -> None:
        bench.run(f"DELETE FROM out.{_CLAIMS} WHERE table_name = $1", [claim.table])  # noqa: S608
        bench.run(
            f"INSERT INTO out.{_CLAIMS} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",  # noqa: S608
            [
                claim.table,
                claim.delta_version,
                claim.revision,
                claim.rows,
                claim.checksum,
                claim.exported_at,
                claim.mode,
                claim.rows_written,
                claim.verified,
                claim.reason,
                claim.to_json(),
            ],
        )
        bench.run("COMMIT")
        self._kept = True

    def drop(self, bench: Workbench, live: Live) -> None:
        with suppress(duckdb.TransactionException):  # an error ended it already
            bench.run("ROLLBACK")

    def publish(self, bench: Workbench) -> None:
        if not self._open:
            return
        bench.run("CHECKPOINT out")
        bench.run("DETACH out")
        self._open = False
        if self._kept:
            self._next.chmod(0o444)  # analysts read; a write would be lost with the next export
            synced(self._next)
            Path(f"{self.path}.wal").unlink(missing_ok=True)  # of a writer of the file that goes
            self._next.replace(self.path)
            synced(self.path.parent)

    def close(self) -> None:
        _remove(self._next)


def _table(live: Live) -> str:
    return f"out.{identifier(live.layer)}.{identifier(live.name)}"


def _alter(bench: Workbench, live: Live, step: Step) -> list[str]:
    """Give the table the new columns; what it holds is mapped as the change feed maps it."""
    table, had = _table(live), {column.name: column for column in step.old}
    wanted = [column.name for column in step.new]
    stay = [column.name for column in step.old if column.name in wanted]
    if not stay or stay + [name for name in wanted if name not in had] != wanted:
        raise Rebuild("columns came in another order")
    told = []
    for column in step.new:
        change = _column_change(table, had.get(column.name), column)
        if change is not None:
            bench.run(change[1])
            told.append(change[0])
    for name in had:
        if name not in wanted:
            bench.run(f"ALTER TABLE {table} DROP COLUMN {identifier(name)}")
            told.append(f"dropped {name}")
    return told


def _column_change(table: str, was: Column | None, now: Column) -> tuple[str, str] | None:
    name = identifier(now.name)
    if was is None:
        return f"added {now.name}", f"ALTER TABLE {table} ADD COLUMN {name} {now.type}"
    if was.type == now.type:
        return None
    return (
        f"{now.name}: {was.type} to {now.type}",
        f"ALTER TABLE {table} ALTER {name} SET DATA TYPE {now.type} "
        f"USING TRY_CAST({name} AS {now.type})",
    )


# --- files ------------------------------------------------------------------------------------
def copied(source: Path, to: Path) -> str:
    """Copy a file: by sharing its blocks where the disk can do that, else byte by byte.

    Raises:
        EnvironmentProblem: there is no room for it.
    """
    with source.open("rb") as old, to.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
            return "reflink"
        except OSError:
            pass
    size, free = source.stat().st_size, shutil.disk_usage(to.parent).free
    if size + _SPARE > free:
        to.unlink()
        raise EnvironmentProblem(
            f"an export needs room for a copy of {source} ({size:,} bytes); {free:,} are free.",
            remedy="Free some space, then type the same command again.",
        )
    shutil.copyfile(source, to)
    return "bytes"


def _remove(path: Path) -> None:
    for file in (path, Path(f"{path}.wal")):
        if file.exists():
            os.unlink(file)


def _in_use(error: Exception) -> bool:
    return "lock" in str(error).lower()


def _first(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
