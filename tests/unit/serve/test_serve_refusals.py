"""Nothing but reading live tables: every way out we could think of, against both walls.

The polite wall (``check``) must refuse each text with a remedy. The real wall (``sandbox``) must
stop each of them with the polite one taken away. And whatever happens, no file may change and no
secret may show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from live_tables import LiveTable

from penstock.errors import PenstockError, QueryRefused, UsageError
from penstock.serve import sandbox
from penstock.serve.catalog import Catalog
from penstock.serve.query import run_query
from penstock.serve.snapshot import open_snapshot
from penstock.settings import Settings

SECRET = "s3cr3t-in-a-file"
LIVE_FILE = "{live}/_revisions/r1/part-00001.parquet"

# Each text; {out} is a folder with a secret in it, {live} the folder of gold.stats.
READS_FILES = [
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM '{out}/secret.csv'",
    'SELECT * FROM "{out}/secret.csv"',
    "FROM '{out}/secret.csv'",
    "TABLE '{out}/secret.csv'",
    "DESCRIBE '{out}/secret.csv'",
    "SUMMARIZE '{out}/secret.csv'",
    "SELECT * FROM (SELECT * FROM '{out}/secret.csv')",
    "SELECT (SELECT column0 FROM '{out}/secret.csv')",
    "SELECT 1 WHERE EXISTS (FROM '{out}/secret.csv')",
    "SELECT * FROM gold.stats JOIN '{out}/secret.csv' ON true",
    "SELECT * FROM gold.stats UNION ALL BY NAME SELECT * FROM '{out}/secret.csv'",
    "WITH x AS (FROM '{out}/secret.csv') SELECT * FROM x",
    "SELECT * FROM (WITH \"{out}/a.csv\" AS (SELECT 1) SELECT 1), '{out}/a.csv'",
    "SELECT * FROM read_csv('{out}/secret.csv')",
    "select * from READ_CSV ('{out}/secret.csv')",
    "SELECT * FROM/**/read_csv/**/('{out}/secret.csv')",
    "SELECT * FROM -- x\nread_csv(\n'{out}/secret.csv')",
    "SELECT * FROM \"read_csv\"('{out}/secret.csv')",
    "SELECT * FROM \"READ_csv\"('{out}/secret.csv')",
    "SELECT * FROM main.read_csv('{out}/secret.csv')",
    "SELECT * FROM system.main.read_csv('{out}/secret.csv')",
    "SELECT * FROM read_csv_auto('{out}/secret.csv')",
    "SELECT * FROM read_csv(['{out}/secret.csv'])",
    "SELECT * FROM read_csv('{out}/' || 'secret.csv')",
    "SELECT * FROM read_text('{out}/secret.csv')",
    "SELECT * FROM read_blob('{out}/secret.csv')",
    "SELECT * FROM read_json('{out}/secret.csv')",
    "SELECT * FROM read_ndjson_objects('{out}/secret.csv')",
    "SELECT * FROM read_parquet('{out}/copy.parquet')",
    "SELECT * FROM parquet_scan('{out}/copy.parquet')",
    "SELECT * FROM '{out}/copy.parquet'",
    "SELECT * FROM '{out}/*.parquet'",
    "SELECT * FROM parquet_metadata('{out}/copy.parquet')",
    "SELECT * FROM parquet_schema('{out}/copy.parquet')",
    "SELECT * FROM parquet_kv_metadata('{out}/copy.parquet')",
    "SELECT * FROM read_duckdb('{out}/x.db')",
    "SELECT * FROM glob('{out}/*')",
    "SELECT * FROM sniff_csv('{out}/secret.csv')",
    "SELECT * FROM gold.stats, LATERAL read_text('{out}/secret.csv')",
    "SELECT * FROM gold.stats WHERE ticker IN (SELECT content FROM read_text('{out}/secret.csv'))",
    "SELECT list((SELECT content FROM read_text('{out}/secret.csv')))",
    "WITH RECURSIVE r AS (FROM read_text('{out}/secret.csv') UNION FROM r) FROM r",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{out}/secret.csv')",
    "SELECT * FROM query('FROM read_text(''{out}/secret.csv'')')",
    "SELECT * FROM query_table('{out}/secret.csv')",
    "SELECT * FROM query_table(['{out}/secret.csv'])",
    "SELECT * FROM histogram('{out}/secret.csv', column0)",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM glob(''{out}/*'')'))",
    "SELECT * FROM 'https://example.com/x.parquet'",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "PIVOT '{out}/secret.csv' ON column0 IN ('a')",
]
WRITES_FILES = [
    "COPY gold.stats TO '{out}/out.csv'",
    "copy (select 1) to '{out}/out.parquet' (format parquet)",
    "/* hi */ COPY (SELECT 1) TO '{out}/out.csv'",
    "WITH a AS (COPY (SELECT 1) TO '{out}/out.csv') SELECT * FROM a",
    f"WITH a AS (COPY (SELECT 1) TO '{LIVE_FILE}' (FORMAT parquet, USE_TMP_FILE false)) FROM a",
    "SELECT * FROM (WITH a AS (COPY (SELECT 1) TO '{out}/out.csv') FROM a)",
    "SELECT (WITH a AS (COPY (SELECT 1) TO '{out}/out.csv') SELECT count(*) FROM a)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}/out.csv'",
    "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{out}/out.csv') FROM a",
    f"EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{LIVE_FILE}' (USE_TMP_FILE false)) FROM a",
    "EXPORT DATABASE '{out}/export'",
    "IMPORT DATABASE '{out}/export'",
    "ATTACH '{out}/new.db'",
    "ATTACH '{out}/new.db' AS gold2 (READ_ONLY)",
    "DETACH memory",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t (i INT)",
    "CREATE OR REPLACE VIEW gold.stats AS SELECT 1",
    "CREATE MACRO m() AS TABLE FROM read_text('{out}/secret.csv')",
    "CREATE SECRET s (TYPE s3)",
    "CREATE SEQUENCE q",
    "INSERT INTO gold.stats VALUES ('X', 1, 1.0)",
    "WITH a AS (INSERT INTO gold.stats VALUES ('X', 1, 1.0) RETURNING *) FROM a",
    "WITH a AS (DELETE FROM gold.stats RETURNING *) FROM a",
    "WITH a AS (UPDATE gold.stats SET trades = 0 RETURNING *) FROM a",
    "UPDATE gold.stats SET trades = 0",
    "DELETE FROM gold.stats",
    "TRUNCATE gold.stats",
    "DROP VIEW gold.stats",
    "ALTER VIEW gold.stats RENAME TO other",
    "MERGE INTO gold.stats USING gold.stats s ON true WHEN MATCHED THEN DELETE",
    "VACUUM",
    "CHECKPOINT",
    "COMMENT ON VIEW gold.stats IS 'x'",
]
CHANGES_SETTINGS = [
    "SET threads = 8",
    "SET enable_external_access = true",
    "set GLOBAL enable_external_access=true",
    "SET SESSION memory_limit = '100GB'",
    "SET lock_configuration = false",
    "SET allowed_paths = ['/etc/passwd']",
    "SET TimeZone = 'Asia/Tokyo'",
    "RESET enable_external_access",
    "RESET threads",
    "PRAGMA memory_limit='100GB'",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output='{out}/profile.json'",
    "CALL enable_logging(storage = 'file', storage_config = {{'path': '{out}/log'}})",
    "SELECT * FROM enable_logging(storage = 'file', storage_config = {{'path': '{out}/log'}})",
    "SELECT * FROM enable_profiling(save_location = '{out}/profile.json')",
    "SELECT * FROM disable_logging()",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{out}/evil.duckdb_extension'",
    "FORCE INSTALL spatial FROM community",
    "UPDATE EXTENSIONS",
    "USE gold",
]
# The polite wall alone says no: harmless to the engine, or not a matter of files at all.
POLITE_ONLY = [
    "WITH \"{out}/secret.csv\" AS (SELECT 1) SELECT * FROM (FROM '{out}/secret.csv')",
    "SELECT json_serialize_plan('FROM read_csv(''{out}/secret.csv'')')",
    "SELECT getenv('PENSTOCK_TEST_SECRET')",
    "SELECT GETENV('PENSTOCK_TEST_SECRET')",
    "SELECT \"getenv\"('PENSTOCK_TEST_SECRET')",
    "SELECT 'PENSTOCK_TEST_SECRET'.getenv()",
    "SELECT list_transform(['PENSTOCK_TEST_SECRET'], lambda x: getenv(x))",
    "SELECT current_setting('secret_directory')",
    "SELECT * FROM gold.stats WHERE ticker = current_setting('home_directory')",
    "SELECT * FROM gold.stats ORDER BY current_setting('threads')",
    "SELECT getvariable('files_0')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM sqlite_master",
    "SELECT write_log('x')",
    "SELECT to_aggregate_state('\\x00'::BLOB, 'sum')",
    "SELECT __internal_decompress_string(1::UTINYINT)",
    "SELECT * FROM arrow_scan(1::POINTER, 1::POINTER, 1::POINTER)",
    "SELECT * FROM python_variable",
    "SELECT * FROM settings",
    "SELECT * FROM gold.python_variable",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SHOW DATABASES",
    "SHOW VARIABLES",
    "SELECT * FROM (SHOW TABLES)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{out}/out.csv'",
    "SELECT 1;\n-- x\n;DROP VIEW gold.stats",
    "EXPLAIN SELECT 1; SELECT 2",
    "EXPLAIN EXPLAIN SELECT 1",
    "SELECT * FROM gold.stats AT (VERSION => 1)",
    "SELECT * FROM memory.gold.stats",
    "SELECT * FROM gold.\"../../secret\"",
    "SELECT * FROM gold.\"stats@yesterday\"",
    "SELECT * FROM gold.stats@version:99999",
    "SELECT * FROM gold.stats@..",
    "SELECT " + "(" * 400 + "1" + "+1)" * 400,
]  # fmt: skip
WALLED = READS_FILES + WRITES_FILES + CHANGES_SETTINGS
ALL = WALLED + POLITE_ONLY

python_variable = [SECRET]


@pytest.fixture
def out(tmp_path: Path, gold: LiveTable) -> Path:
    """A folder next to the stack with things nobody may see or change."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "secret.csv").write_text(f"{SECRET}\n{SECRET}\n")
    (folder / "a.csv").write_text(f"{SECRET}\n{SECRET}\n")
    part = gold.folder / "_revisions/r1/part-00001.parquet"
    (folder / "copy.parquet").write_bytes(part.read_bytes())
    return folder


@pytest.fixture(autouse=True)
def untouched(out: Path, tmp_path: Path) -> Iterator[None]:
    """Whatever a test does, no file appears, disappears or changes."""

    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = state()
    yield
    assert state() == before


def fill(sql: str, out: Path, gold: LiveTable) -> str:
    return sql.format(out=out, live=gold.folder)


def test_the_corpus_is_large() -> None:
    assert len(set(ALL)) == len(ALL) >= 150


@pytest.mark.parametrize("sql", ALL, ids=range(len(ALL)))
def test_refused_with_a_remedy(
    settings: Settings, gold: LiveTable, out: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", SECRET)
    with pytest.raises((QueryRefused, UsageError)) as caught:
        run_query(settings, fill(sql, out, gold), timeout_s=5)
    assert caught.value.remedy
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "sql", WRITES_FILES + CHANGES_SETTINGS, ids=range(len(WRITES_FILES + CHANGES_SETTINGS))
)
def test_what_is_not_a_read_is_refused_as_such(
    settings: Settings, gold: LiveTable, out: Path, sql: str
) -> None:
    """Not a mere syntax error: the person learns that it is not allowed."""
    with pytest.raises(QueryRefused):
        run_query(settings, fill(sql, out, gold), timeout_s=5)


def run_unchecked(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    sandbox.refuse_writes(connection, text.removeprefix("EXPLAIN ANALYZE "))
    connection.execute(text).fetchall()


@pytest.mark.parametrize("sql", WALLED, ids=range(len(WALLED)))
def test_the_engine_holds_without_the_polite_wall(
    settings: Settings, gold: LiveTable, out: Path, sql: str
) -> None:
    """As if ``check`` had a hole: the same texts, straight at the locked database."""
    catalog = Catalog.load(settings)
    snapshot = open_snapshot(catalog, catalog.find(["gold", "stats"]))
    text = fill(sql, out, gold)
    with sandbox.connect("200MB") as connection:
        sandbox.expose(connection, [snapshot])
        assert connection.execute("SELECT count(*) FROM gold.stats").fetchall() == [(3,)]
        with pytest.raises((duckdb.Error, PenstockError)) as caught:
            run_unchecked(connection, text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('{out}/secret.csv')",
        "FROM read_text('{out}/secret.csv')",
        "FROM '{out}/secret.csv'",
        "FROM glob('{out}/*')",
        "COPY (SELECT 1) TO '{out}/new.csv'",
        "ATTACH '{out}/new.db'",
        "SET threads = 1",
        "SET lock_configuration = false",
        "LOAD httpfs",
        "CREATE TABLE t (i INT)",
        "FROM python_variable",
    ],
)
def test_the_engine_alone_says_no(settings: Settings, gold: LiveTable, out: Path, sql: str) -> None:
    """DuckDB's own locks, with neither our look at the text nor at the plan."""
    catalog = Catalog.load(settings)
    with sandbox.connect("200MB") as connection:
        sandbox.expose(connection, [open_snapshot(catalog, catalog.find(["gold", "stats"]))])
        with pytest.raises(duckdb.Error):
            connection.execute(fill(sql, out, gold)).fetchall()


def test_python_variables_are_invisible_even_before_the_lock() -> None:
    """An Arrow table in the caller's scope: DuckDB would read it by its name."""
    in_scope = pa.table({"secret": [SECRET]})
    with sandbox.connect("200MB") as connection, pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT * FROM in_scope")
    assert in_scope.num_rows == 1


def test_the_plan_is_what_keeps_live_files_from_being_overwritten(
    settings: Settings, gold: LiveTable
) -> None:
    """DuckDB may write where it may read; this is the one door its own locks leave open."""
    catalog = Catalog.load(settings)
    sql = (
        f"WITH a AS (COPY (SELECT 1) TO '{LIVE_FILE}' (FORMAT parquet, USE_TMP_FILE false)) FROM a"
    )
    with sandbox.connect("200MB") as connection:
        sandbox.expose(connection, [open_snapshot(catalog, catalog.find(["gold", "stats"]))])
        with pytest.raises(QueryRefused, match="COPY"):
            sandbox.refuse_writes(connection, sql.format(live=gold.folder))


def test_other_files_of_the_same_table_are_out_of_reach(
    settings: Settings, gold: LiveTable, out: Path
) -> None:
    """Only the files of the pinned version, not the folder they are in."""
    catalog = Catalog.load(settings)
    snapshot = open_snapshot(catalog, catalog.find(["gold", "stats"]))
    log = gold.folder / "_delta_log" / f"{0:020}.json"
    with sandbox.connect("200MB") as connection:
        sandbox.expose(connection, [snapshot])
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"FROM read_text('{log}')").fetchall()


def test_nothing_of_the_environment_is_in_the_engines_settings(
    settings: Settings, gold: LiveTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{SECRET}@127.0.0.1:1")
    catalog = Catalog.load(settings)
    with sandbox.connect("200MB") as connection:
        sandbox.expose(connection, [open_snapshot(catalog, catalog.find(["gold", "stats"]))])
        found = connection.execute("SELECT value FROM duckdb_settings()").fetchall()
    assert found
    assert SECRET not in repr(found)
    assert os.environ["HTTP_PROXY"]
