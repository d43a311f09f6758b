"""What a query returns: right rows, one version, every shape a table can have had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from live_tables import STATS, LiveTable, removal, stats

from penstock.errors import QueryRefused, UsageError
from penstock.serve.query import open_query, run_query
from penstock.settings import Settings


def rows(settings: Settings, sql: str) -> list[tuple[object, ...]]:
    return run_query(settings, sql).rows


def test_a_live_table_reads_by_name(settings: Settings, gold: LiveTable) -> None:
    result = run_query(settings, "SELECT ticker, trades, price FROM gold.stats ORDER BY trades")
    assert result.columns == ("ticker", "trades", "price")
    assert result.types == ("VARCHAR", "BIGINT", "DOUBLE")
    assert result.rows == [("AAPL", 3, 10.5), ("MSFT", 5, 20.0), ("NVDA", 8, 30.25)]
    assert result.versions == {"gold.stats": 2}
    assert not result.truncated


def test_a_table_written_by_delta_rs_reads_the_same(settings: Settings) -> None:
    path = settings.warehouse / "silver" / "trades"
    data = stats(("A", 1, 1.0), ("B", 2, 2.0))
    write_deltalake(path, data)
    write_deltalake(path, data, mode="append")
    DeltaTable(path).delete("ticker = 'A'")
    assert rows(settings, "SELECT ticker FROM silver.trades") == [("B",), ("B",)]


ALLOWED = [
    ("select 1", [(1,)]),
    ("SELECT 1;", [(1,)]),
    ("-- a comment\nselect /* inside */ 1 -- after", [(1,)]),
    ("values (1), (2)", [(1,), (2,)]),
    ("(select 1)", [(1,)]),
    ("from gold.stats select count(*)", [(3,)]),
    ('select count(*) from "gold"."stats"', [(3,)]),
    ("select count(*) from GOLD.STATS", [(3,)]),
    ("table gold.stats order by 2 limit 1", [("AAPL", 3, 10.5)]),
    ("with a as (from gold.stats) select max(trades) from a", [(8,)]),
    ("with a as (select 1 x), b as (select x + 1 y from a) select * from b", [(2,)]),
    ("with stats as (select 7) select * from stats", [(7,)]),
    (
        "with recursive n as (select 1 i union all select i + 1 from n where i < 4) "
        "select sum(i) from n",
        [(10,)],
    ),
    ("select (select max(trades) from gold.stats)", [(8,)]),
    ("select ticker from gold.stats where trades = (select min(trades) from gold.stats)", None),
    ("select count(*) from gold.stats where exists (from gold.stats where trades > 7)", [(3,)]),
    ("select a.ticker from gold.stats a join gold.stats b using (ticker) order by 1 limit 1", None),
    ("select ticker from gold.stats union all select ticker from gold.stats", None),
    ("select distinct on (ticker) ticker, trades from gold.stats order by ticker desc", None),
    (
        "select ticker, row_number() over (order by trades desc) r from gold.stats qualify r = 1",
        None,
    ),
    ("select sum(trades) filter (ticker <> 'AAPL') from gold.stats", [(13,)]),
    ("select grouping(ticker), count(*) from gold.stats group by rollup (ticker)", None),
    ("select i from range(3) t(i)", [(0,), (1,), (2,)]),
    ("select * from generate_series(1, 2)", [(1,), (2,)]),
    ("select unnest([1, 2])", [(1,), (2,)]),
    ("select * from unnest(['a'])", [("a",)]),
    ("select key from json_each('{\"a\": 1}')", [("a",)]),
    ("select list_transform([1, 2], lambda x: x + 1)", [([2, 3],)]),
    ("select [x * 2 for x in [1, 2]]", [([2, 4],)]),
    ("select case when trades > 4 then 'big' else 'small' end from gold.stats order by 1", None),
    ("select ticker from gold.stats where ticker glob 'N*'", [("NVDA",)]),
    ("select ticker from gold.stats where ticker ilike 'nv%'", [("NVDA",)]),
    ("select regexp_extract('a1', '[0-9]')", [("1",)]),
    ("select * exclude (price) replace (trades + 1 as trades) from gold.stats limit 0", []),
    ("select columns('tr.*') from gold.stats order by 1 limit 1", [(3,)]),
    ("pivot gold.stats on ticker in ('AAPL', 'MSFT') using sum(trades) group by price", None),
    ("unpivot (select 1 a, 2 b) on a, b", [("a", 1), ("b", 2)]),
    ("select * from gold.stats tablesample 100%", None),
    ("select * from gold.stats order by all limit 1 offset 1", [("MSFT", 5, 20.0)]),
    ("select * from gold.stats limit 50%", None),
    ("select 'drop table x; copy y to ''z'''", [("drop table x; copy y to 'z'",)]),
    ("select 1 as getenv, 2 as read_csv", [(1, 2)]),
    ('select "a.b" from (select 1 as "a.b")', [(1,)]),
    ("select now() is not null, version() is not null", [(True, True)]),
    ("select time_bucket(interval '1 hour', timestamptz '2026-01-01 10:30:00Z')", None),
    ("select * from gold.stats a, lateral (select a.trades * 2 d) order by d limit 1", None),
    ("select try_cast('x' as int)", [(None,)]),
    ("select median(trades), quantile_cont(price, 0.5) from gold.stats", [(5.0, 20.0)]),
    ("select * from gold.stats a asof join gold.stats b on a.trades >= b.trades", None),
    ("select count(*) from (describe gold.stats)", [(3,)]),
    ("select count(*) from (summarize gold.stats)", [(3,)]),
    ("describe select 1 as a", None),
    ("summarize gold.stats", None),
    ("explain select * from gold.stats", None),
    ("explain analyze select * from gold.stats", None),
    ("EXPLAIN (FORMAT json) SELECT 1", None),
    ("/* x */ explain\n(analyze, format json) select 1", None),
]


@pytest.mark.parametrize(("sql", "expected"), ALLOWED, ids=[sql[:40] for sql, _ in ALLOWED])
def test_reads_of_all_kinds_run(
    settings: Settings, gold: LiveTable, sql: str, expected: list[object] | None
) -> None:
    """The other half of the refusals: a check that refuses everything must not pass."""
    found = rows(settings, sql)
    assert found if expected is None else found == expected


def test_describe_names_delta_types(settings: Settings, gold: LiveTable) -> None:
    described = rows(settings, "DESCRIBE gold.stats")
    assert [row[:2] for row in described] == [
        ("ticker", "VARCHAR"),
        ("trades", "BIGINT"),
        ("price", "DOUBLE"),
    ]


@pytest.mark.parametrize("sql", ["SHOW TABLES", "show all tables;", "SHOW"])
def test_show_tables_lists_what_is_declared_too(
    settings: Settings, gold: LiveTable, declare: Callable[..., None], sql: str
) -> None:
    declare("silver.trades")
    assert rows(settings, sql) == [
        ("gold", "stats", "live"),
        ("silver", "trades", "declared, no data yet"),
    ]


def test_a_declared_table_without_data_is_told_apart_from_an_unknown_one(
    settings: Settings, gold: LiveTable, declare: Callable[..., None]
) -> None:
    declare("silver.trades")
    with pytest.raises(UsageError, match="declared, no data yet"):
        run_query(settings, "SELECT * FROM silver.trades")
    with pytest.raises(UsageError, match=r"no table named 'silver\.tradez'") as caught:
        run_query(settings, "SELECT * FROM silver.tradez")
    assert "silver.trades" in caught.value.remedy


def test_only_named_tables_are_opened(settings: Settings, gold: LiveTable) -> None:
    """A broken neighbour must not matter to a query that does not name it."""
    log = settings.warehouse / "gold" / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("not json")
    assert rows(settings, "SELECT count(*) FROM gold.stats") == [(3,)]
    with pytest.raises(QueryRefused, match=r"gold\.broken"):
        run_query(settings, "SELECT * FROM gold.broken")


def test_a_query_sees_one_version_whatever_is_committed_meanwhile(
    settings: Settings, live: Callable[[str], LiveTable]
) -> None:
    table = live("gold.stats").create(STATS)
    first = table.append(stats(*((f"T{i}", i, 0.0) for i in range(5000))))
    with open_query(settings, "SELECT ticker FROM gold.stats") as running:
        batches = running.batches()
        seen = len(next(batches))
        table.append(stats(("NEW", 1, 1.0)))
        table.commit(removal(first))
        seen += sum(len(batch) for batch in batches)
    assert seen == 5000
    assert rows(settings, "SELECT ticker FROM gold.stats") == [("NEW",)]


def test_a_swap_is_read_whole(settings: Settings, gold: LiveTable) -> None:
    candidate = gold.write(stats(("AAPL", 4, 11.0)), "_revisions/r2")
    old = [{"path": f"_revisions/r1/part-{n:05}.parquet"} for n in (1, 2)]
    removes = [removal({**file, "partitionValues": {}, "size": 1}) for file in old]
    gold.commit(*removes, {"add": candidate})
    assert rows(settings, "SELECT * FROM gold.stats") == [("AAPL", 4, 11.0)]


def test_a_table_without_files_is_empty_with_its_columns(
    settings: Settings, live: Callable[[str], LiveTable]
) -> None:
    live("gold.stats").create(STATS)
    result = run_query(settings, "SELECT * FROM gold.stats WHERE trades > 1")
    assert result.columns == ("ticker", "trades", "price")
    assert result.rows == []


def test_max_rows_cuts_and_says_so(settings: Settings, gold: LiveTable) -> None:
    cut = run_query(settings, "SELECT * FROM range(10000)", max_rows=5000)
    assert (len(cut.rows), cut.truncated) == (5000, True)
    whole = run_query(settings, "SELECT * FROM range(5000)", max_rows=5000)
    assert (len(whole.rows), whole.truncated) == (5000, False)


def test_a_home_with_odd_characters_works(tmp_path: Path) -> None:
    home = tmp_path / "a b#c'd"
    odd = Settings(project=tmp_path, home=home)
    LiveTable(odd.warehouse / "gold" / "stats").create(STATS).append(stats(("A", 1, 1.0)))
    assert rows(odd, "SELECT ticker FROM gold.stats") == [("A",)]


def test_tables_this_reader_would_misread_are_refused(settings: Settings) -> None:
    path = settings.warehouse / "gold" / "vectors"
    write_deltalake(path, stats(("A", 1, 1.0)))
    DeltaTable(path).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(QueryRefused, match="deletionVectors"):
        run_query(settings, "SELECT * FROM gold.vectors")


def test_column_mapping_is_refused(settings: Settings, gold: LiveTable) -> None:
    mapped = gold.metadata(STATS)
    mapped["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    gold.commit({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, mapped)
    with pytest.raises(QueryRefused):
        run_query(settings, "SELECT * FROM gold.stats")


@pytest.mark.parametrize(
    "path_of",
    [Path.as_uri, str, lambda path: f"../../../{path.name}", lambda path: f"x/../..%2F{path.name}"],
    ids=["uri", "absolute", "relative", "encoded"],
)
def test_a_log_that_points_outside_its_table_is_refused(
    settings: Settings, gold: LiveTable, path_of: Callable[[Path], str]
) -> None:
    secret = settings.home / "secret.parquet"
    gold.write(stats(("SECRET", 1, 1.0)))
    secret.write_bytes((gold.folder / "_revisions/r1/part-00003.parquet").read_bytes())
    gold.commit(
        {
            "add": {
                "path": path_of(secret),
                "partitionValues": {},
                "size": 1,
                "modificationTime": 0,
                "dataChange": True,
            }
        }
    )
    with pytest.raises(QueryRefused, match="outside its own folder"):
        run_query(settings, "SELECT * FROM gold.stats")


def test_a_file_cleaned_up_while_reading_says_run_again(
    settings: Settings, gold: LiveTable
) -> None:
    (gold.folder / "_revisions/r1/part-00002.parquet").unlink()
    with pytest.raises(QueryRefused, match=r"gold\.stats version 2") as caught:
        run_query(settings, "SELECT * FROM gold.stats")
    assert "again" in caught.value.remedy


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nope FROM gold.stats", 'LINE 1: SELECT nope FROM gold.stats\n'),
        ("SELECT 1,\n  nope FROM gold.stats", "LINE 2:   nope FROM gold.stats\n"),
        ("SELECT nofunction(1)", "nofunction"),
        ("SELECT 'x'::INT", "Could not convert"),
        ("SELECT * FROM gold.stats WHERE", "WHERE"),
        ("SELEC 1", "SELEC"),
        ("", "empty"),
        (" ;; -- nothing", "empty"),
        ("SELECT $1", "parameter"),
    ],
)  # fmt: skip
def test_wrong_sql_is_a_usage_error_that_points_at_it(
    settings: Settings, gold: LiveTable, sql: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run_query(settings, sql)
    assert message in caught.value.message
    assert "EXPLAIN" not in caught.value.message
    assert caught.value.remedy
