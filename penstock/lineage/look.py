"""Looking for rows in the files of a table: DuckDB over a list of files, nothing written.

The database is the same locked-down one `penstock query` uses: capped memory, no spilling, no
extensions. A file written before a column existed gives NULL for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from penstock.errors import QueryRefused, UsageError, in_a_line
from penstock.location import Location, delta_table
from penstock.runtime.delta.beginnings import merged_span
from penstock.serve.sandbox import connect
from penstock.serve.snapshot import Column, columns_of, identifier, literal

__all__ = [
    "FILE",
    "PLACE",
    "ROW",
    "Found",
    "columns_at",
    "equal_row",
    "rows_where",
    "sharing",
    "typed",
]

PLACE = ("partition", "offset")  # what tables call the place of a record in its topic
MOST_ROWS = 5_000  # that are followed further; beyond that, versions are
FILE = "_penstock_file"
ROW = "_penstock_row"  # its number in the file, from 0
Bounds = Mapping[str, Sequence[tuple[int, int]]]  # file -> rows of it that are meant
_MEMORY = "1GB"


@dataclass(frozen=True)
class Found:
    """Rows that were looked for: how many, in which files, and the first of them."""

    count: int
    files: dict[str, int]  # where they are -> how many
    numbers: dict[str, list[int]]  # of files that are looked into: which rows, if not too many
    rows: pa.Table  # at most MOST_ROWS, of the columns asked for
    places: list[tuple[int, int, int, int]]  # partition, lowest and highest offset, how many


def columns_at(path: Location, version: int | None = None) -> tuple[Column, ...]:
    """The columns of a table and their types in DuckDB."""
    table = delta_table(path, version)
    return columns_of(json.loads(table.schema().to_json()), ())


@contextmanager
def _over(
    columns: Sequence[Column], files: Sequence[str], bounds: Bounds | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with one view, ``held``: the rows of the files, and each row's file and number.

    Args:
        bounds: of some files only these rows.

    Raises:
        QueryRefused: the database could not: too much for its memory, or a file that went.
    """
    with connect(_MEMORY) as duck, _in_words():
        duck.execute("SET VARIABLE files = $1", [list(files)])
        entries = ", ".join(
            f"{literal(c.name)}: {{name: {literal(c.name)}, type: {literal(c.type)}, "
            "default_value: NULL}"
            for c in columns
        )
        duck.execute(
            f"create view held as select * exclude (file_row_number), file_row_number as {ROW} "  # noqa: S608
            "from read_parquet(getvariable('files'), hive_partitioning = false, "
            f"filename = '{FILE}', file_row_number = true, schema = MAP {{{entries}}})"
            + _within(bounds or {})
        )
        yield duck


def _within(bounds: Bounds) -> str:
    if not bounds:
        return ""
    named = ", ".join(literal(file) for file in bounds)
    tests = [f"{FILE} not in ({named})"]
    for file, spans in bounds.items():
        tests += [
            f"({FILE} = {literal(file)} and file_row_number >= {first} and file_row_number < {end})"
            for first, end in spans
        ]
    return " where " + " or ".join(tests)


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise QueryRefused(
            f"looking through the files of the table failed: {in_a_line(error)}",
            remedy="Name more columns, so that fewer rows are meant, or try again.",
        ) from None


# --- rows that a person names -----------------------------------------------------------------
def typed(columns: Sequence[Column], wanted: Sequence[tuple[str, str]], table: str) -> str:
    """A condition: each named column has the value typed; NULL finds rows without one.

    Raises:
        UsageError: no such column, or the text is no value of its type.
    """
    types = {column.name: column.type for column in columns}
    tests = []
    with connect(_MEMORY) as duck:
        for name, text in wanted:
            if name not in types:
                raise UsageError(
                    f"{table} has no column {name!r}; it has {', '.join(types)}.",
                    remedy=f'See `penstock query "DESCRIBE {table}"`.',
                )
            if text == "NULL":
                tests.append(f"{identifier(name)} is null")
                continue
            value = f"cast({literal(text)} as {types[name]})"
            try:
                duck.execute(f"select {value}").fetchall()
            except duckdb.Error:
                raise UsageError(
                    f"{text!r} is no value of {table}.{name}, which is {types[name].lower()}.",
                    remedy="Times are written as 2026-01-31T12:00:00Z, numbers with a point.",
                ) from None
            tests.append(f"{identifier(name)} = {value}")
    return " and ".join(tests)


def rows_where(
    columns: Sequence[Column], files: Sequence[str], test: str, most: int
) -> tuple[int, pa.Table]:
    """How many rows meet a condition, and the first of them with their files, in a fixed order."""
    if not files:
        return 0, pa.table({FILE: pa.array([], pa.string()), ROW: pa.array([], pa.int64())})
    with _over(columns, files) as duck:
        ((total,),) = duck.execute(f"select count(*) from held where {test}").fetchall()  # noqa: S608
        first = f"select * from held where {test} order by all limit $1"  # noqa: S608
        rows = duck.sql(first, params=[most]).to_arrow_table()
    return int(total), rows


# --- rows that belong to others ---------------------------------------------------------------
def sharing(
    columns: Sequence[Column],
    files: Sequence[str],
    scope: pa.Table,
    tests: Sequence[str],
    keep: Sequence[str],
    *,
    bounds: Bounds | None = None,
) -> Found | None:
    """Rows ``i`` for which some row ``s`` of the scope passes all tests; None: cannot be told."""
    if not files:
        return Found(0, {}, {}, scope.slice(0, 0), [])
    names = {column.name for column in columns}
    kept = [name for name in keep if name in names]
    listed = ", ".join([*(f"i.{identifier(name)}" for name in kept), f"i.{FILE}", f"i.{ROW}"])
    try:
        with _over(columns, files, bounds) as duck:
            duck.register("scope", scope)
            duck.execute(
                f"create temp table met as select {listed} from held i "  # noqa: S608
                f"where exists (select 1 from scope s where {' and '.join(tests)})"
            )
            return _found(duck, kept)
    except QueryRefused:  # types that do not compare, or more rows than the memory it may take
        return None


def _found(duck: duckdb.DuckDBPyConnection, kept: Sequence[str]) -> Found:
    files = dict(duck.execute(f"select {FILE}, count(*) from met group by 1").fetchall())  # noqa: S608
    places = []
    if set(PLACE) <= set(kept):
        places = duck.execute(
            'select partition, min("offset"), max("offset"), count(*) from met '
            'where partition is not null and "offset" is not null group by 1 order by 1'
        ).fetchall()
    listed = ", ".join(map(identifier, kept)) or "1 as one"
    first = f"select {listed} from met order by all limit $1"  # noqa: S608
    rows = duck.sql(first, params=[MOST_ROWS]).to_arrow_table()
    return Found(
        sum(files.values()), files, _numbers(duck, files), rows, [tuple(place) for place in places]
    )


def _numbers(duck: duckdb.DuckDBPyConnection, files: Mapping[str, int]) -> dict[str, list[int]]:
    """Where in merged files the rows are; a file of which too many are meant is left out."""
    few = [file for file, count in files.items() if merged_span(file) and count <= MOST_ROWS]
    if not few:
        return {}
    asked = f"select {FILE}, list({ROW}) from met where {FILE} in (select unnest($1)) group by 1"  # noqa: S608
    return dict(duck.execute(asked, [few]).fetchall())


def equal_row(columns: Sequence[Column], files: Sequence[str], row: pa.Table) -> set[str]:
    """Of files with rows that came, or with changes: those that brought exactly this row."""
    if not files:
        return set()
    change = Column("_change_type", "VARCHAR")
    tests = [f"i.{identifier(c.name)} is not distinct from s.{identifier(c.name)}" for c in columns]
    with _over([*columns, change], files) as duck:
        duck.register("scope", row)
        found = duck.execute(
            f"select distinct i.{FILE} from held i, scope s "  # noqa: S608
            "where coalesce(i._change_type, 'insert') in ('insert', 'update_postimage') and "
            + " and ".join(tests)
        ).fetchall()
    return {str(file) for (file,) in found}
