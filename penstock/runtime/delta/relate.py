"""Bags of rows in memory, compared: what one has and the other has not.

DuckDB does the work, in the driver, on Arrow tables as they are: rows count with multiplicity, and
nulls are equal to nulls. One connection per thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

__all__ = ["among", "connection", "distinct", "matching", "members", "minus", "quoted", "same"]

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's own DuckDB, in memory, for rows that come and go as Arrow."""
    if not hasattr(_local, "duck"):
        _local.duck = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"})
        _local.duck.execute("SET TimeZone = 'UTC'")
    duck: duckdb.DuckDBPyConnection = _local.duck
    return duck


def minus(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The rows less those that are gone, each once per time it is gone."""
    if rows.num_rows == 0 or gone.num_rows == 0:
        return rows
    left = connection().sql("select * from rows except all select * from gone")
    return left.to_arrow_table().cast(rows.schema)


def members(rows: pa.Table, bag: pa.Table) -> np.ndarray:
    """Which of the rows make up the bag: each is marked as often as it is in there."""
    marked = np.zeros(rows.num_rows, bool)
    if rows.num_rows == 0 or bag.num_rows == 0:
        return marked
    listed = ", ".join(map(quoted, rows.column_names))
    numbers = pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.append_column("_row", numbers)  # noqa: F841 - found by its name
    found = connection().sql(
        f"""with wanted as (select {listed}, count(*) as _times from bag group by all),
        held as (
            select *, row_number() over (partition by {listed} order by _row) as _time
            from numbered)
        select h._row from held h join wanted w on {same("h", "w", rows.column_names)}
        where h._time <= w._times"""  # noqa: S608
    )
    marked[found.to_arrow_table()["_row"].to_numpy()] = True
    return marked


def distinct(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The different values of some columns."""
    return rows.select(list(columns)).group_by(list(columns)).aggregate([])


def matching(rows: pa.Table, scopes: pa.Table, *, within: bool = True) -> pa.Table:
    """The rows whose values are among the scopes (or not), null being equal to null."""
    found = among(rows, scopes)
    return rows.filter(pa.array(found if within else ~found))


def among(rows: pa.Table, scopes: pa.Table) -> np.ndarray:
    """Which of the rows have values that are among the scopes."""
    marked = np.zeros(rows.num_rows, bool)
    if rows.num_rows == 0 or scopes.num_rows == 0:
        return marked
    on = same("r", "s", scopes.column_names)
    named = rows.select(scopes.column_names)
    numbered = named.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))  # noqa: F841
    found = connection().sql(
        f"select r._row from numbered r semi join scopes s on {on}"  # noqa: S608
    )
    marked[found.to_arrow_table()["_row"].to_numpy()] = True
    return marked


def same(left: str, right: str, columns: Sequence[str]) -> str:
    """A join condition under which null is equal to null."""
    return " and ".join(
        f"{left}.{quoted(name)} is not distinct from {right}.{quoted(name)}" for name in columns
    )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
