"""docs/tables.md names every table, and its questions can be asked of rows that are right."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from quality_world import PROJECT, good_rows

from tests.oracles.shapes import TABLES

TEXT = (PROJECT / "docs" / "tables.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA silver; CREATE SCHEMA gold")
        for name, schema in TABLES.items():
            rows = pa.Table.from_pylist(good_rows(name), schema)  # noqa: F841 - found by its name
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
        yield connection


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.partition("\n")[0])
def test_an_answer_comes(tables, query):
    told = tables.sql(query).fetchall()
    assert told
    assert None not in told[0]


def test_every_stream_and_table_is_described(jobs):
    for name in (*jobs.streams, *jobs.tables):
        assert f"\n| `{name}` |" in TEXT
