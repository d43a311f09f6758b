"""Rows by scope: what a follower needs again when a group, a key or a dimension is touched.

A store is a copy and nothing but a copy: of rows its table has taken in already. It lies in one
DuckDB file per revision. It is written in a transaction that is committed after the table's own
commit, so it can be behind its table and never ahead of it; what it lacks is taken from the input
again, and a store that is gone or damaged is filled anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.runtime.delta.relate import quoted, same

__all__ = ["Store"]

log = logging.getLogger("penstock.store")
_POSITIONS = "_positions"


class Store:
    """Named bags of rows in one file, each with the schema it was opened with."""

    def __init__(self, path: Path, bags: Mapping[str, pa.Schema]) -> None:
        self._path = path
        self._bags = dict(bags)
        try:
            self._duck = self._open()
        except duckdb.Error as error:
            log.warning("%s cannot be read (%s): filling it again", path, error)
            self._throw_away()
            self._duck = self._open()

    def _open(self) -> duckdb.DuckDBPyConnection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "memory_limit": "512MB",
        }
        duck = duckdb.connect(str(self._path), config=config)
        try:
            duck.execute("SET TimeZone = 'UTC'")
            duck.execute(
                f"create table if not exists {_POSITIONS} (input text primary key, reached bigint)"
            )
            for name, schema in self._bags.items():
                empty = schema.empty_table()  # noqa: F841 - DuckDB finds it by its name
                duck.execute(f"create table if not exists {quoted(name)} as from empty")
        except duckdb.Error:
            duck.close()  # else whoever opens the path again is given this one
            raise
        return duck

    def bring_up(self, fill: Callable[[], None]) -> None:
        """Let it hold what its table has taken in.

        Args:
            fill: adds what it lacks. Damage that shows meanwhile would show at every start: then
                everything is thrown away and added again.
        """
        try:
            fill()
        except duckdb.Error as error:
            log.warning("%s cannot be brought up (%s): filling it again", self._path, error)
            self.clear()
            fill()

    def _throw_away(self) -> None:
        for path in (self._path, Path(f"{self._path}.wal")):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything."""
        with suppress(duckdb.Error):  # too damaged to be closed: it goes all the same
            self.close()
        self._throw_away()
        self._duck = self._open()

    def close(self) -> None:
        self._duck.close()

    # --- transactions ---------------------------------------------------------------------
    def begin(self) -> None:
        self._duck.begin()

    def commit(self, positions: Mapping[str, int]) -> None:
        for source, at in positions.items():
            self._duck.execute(
                f"insert or replace into {_POSITIONS} values (?, ?)",  # noqa: S608
                [source, at],
            )
        self._duck.commit()

    def rollback(self) -> None:
        self._duck.rollback()

    def position(self, source: str) -> int:
        """How far the store has taken in an input; -1: not at all."""
        found = self._duck.execute(
            f"select reached from {_POSITIONS} where input = ?",  # noqa: S608
            [source],
        ).fetchall()
        return int(found[0][0]) if found else -1

    # --- rows -----------------------------------------------------------------------------
    def add(self, bag: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self._duck.register("fresh", rows)
            self._duck.execute(f"insert into {quoted(bag)} from fresh")
            self._duck.unregister("fresh")

    def remove(self, bag: str, rows: pa.Table) -> None:
        """Take rows out, each as often as it is given."""
        if not rows.num_rows:
            return
        names = rows.column_names
        listed = ", ".join(map(quoted, names))
        self._duck.register("went", rows)
        self._duck.execute(
            f"""delete from {quoted(bag)} where rowid in (
                with gone as (select {listed}, count(*) as _n from went group by all),
                held as (
                    select t.rowid as _r, gone._n,
                           row_number() over (partition by {_qualified("t", names)}) as _i
                    from {quoted(bag)} t join gone on {same("t", "gone", names)}
                )
                select _r from held where _i <= _n)"""  # noqa: S608
        )
        self._duck.unregister("went")

    def replace(self, bag: str, scopes: pa.Table, rows: pa.Table) -> None:
        """Put these rows in the place of all rows of the scopes."""
        self._duck.register("scopes", scopes)
        on = same("t", "scopes", scopes.column_names)
        self._duck.execute(
            f"delete from {quoted(bag)} t where exists (select 1 from scopes where {on})"  # noqa: S608
        )
        self._duck.unregister("scopes")
        self.add(bag, rows)

    def fetch(self, bag: str, scopes: pa.Table | None = None) -> pa.Table:
        """The rows of the scopes, or all."""
        if scopes is None:
            found = self._duck.sql(f"from {quoted(bag)}").to_arrow_table()
            return found.cast(self._bags[bag])
        self._duck.register("scopes", scopes)
        on = same("t", "scopes", scopes.column_names)
        found = self._duck.sql(
            f"select t.* from {quoted(bag)} t semi join scopes on {on}"  # noqa: S608
        ).to_arrow_table()
        self._duck.unregister("scopes")
        return found.cast(self._bags[bag])

    def scopes(self, bag: str, columns: Sequence[str]) -> pa.Table:
        """Every scope there is."""
        listed = ", ".join(map(quoted, columns))
        found = self._duck.sql(
            f"select distinct {listed} from {quoted(bag)}"  # noqa: S608
        ).to_arrow_table()
        schema = self._bags[bag]
        return found.cast(pa.schema([schema.field(name) for name in columns]))

    def run(self, sql: str) -> None:
        self._duck.execute(sql)


def _qualified(alias: str, names: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{quoted(name)}" for name in names)
