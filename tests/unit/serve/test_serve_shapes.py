"""Shapes a table had in its life: columns that came later, structs, partitions, zones."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from live_tables import STATS, LiveTable

from penstock.serve.query import run_query
from penstock.settings import Settings


def rows(settings: Settings, sql: str) -> list[tuple[object, ...]]:
    return run_query(settings, sql).rows


EVOLVED = pa.schema(
    [
        ("a", pa.int64()),
        ("seen", pa.timestamp("us", "UTC")),
        ("pair", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("many", pa.list_(pa.struct([("k", pa.int32()), ("m", pa.string())]))),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("price", pa.decimal128(12, 4)),
        ("odd \"name's", pa.string()),
        ("added", pa.string()),
    ]
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def evolved(live: Callable[[str], LiveTable]) -> LiveTable:
    """One table, three files of three ages: fewer columns, other order, other widths, INT96."""
    table = live("silver.evolved").create(EVOLVED)
    oldest = pa.table(
        {
            "dropped": ["gone"],
            "a": pa.array([1], pa.int32()),
            "seen": pa.array([NOON], pa.timestamp("us", "UTC")),
            "pair": pa.array([{"x": 1}], pa.struct([("x", pa.int32())])),
            "many": pa.array([[{"k": 1}]], pa.list_(pa.struct([("k", pa.int32())]))),
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        }
    )
    reordered = pa.table(
        {
            "pair": pa.array(
                [{"y": "q", "x": 5}], pa.struct([("y", pa.string()), ("x", pa.int32())])
            ),
            "added": ["yes"],
            "odd \"name's": ["odd"],
            "tags": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            "a": pa.array([2], pa.int64()),
            "price": pa.array([Decimal("2.2500")], pa.decimal128(12, 4)),
        }
    )
    int96 = pa.table({"a": [3], "seen": pa.array([datetime(2026, 1, 1, 14)], pa.timestamp("ns"))})
    table.append(oldest)
    table.append(reordered)
    table.append(int96, use_deprecated_int96_timestamps=True)
    return table


def test_files_older_than_a_column_give_null_for_it(settings: Settings, evolved: LiveTable) -> None:
    found = run_query(settings, "SELECT * FROM silver.evolved ORDER BY a")
    assert found.columns == tuple(EVOLVED.names)
    assert [row[0] for row in found.rows] == [1, 2, 3]
    assert [row[1] for row in found.rows] == [NOON, None, NOON.replace(hour=14)]
    assert [row[2] for row in found.rows] == [{"x": 1, "y": None}, {"x": 5, "y": "q"}, None]
    assert [row[3] for row in found.rows] == [[{"k": 1, "m": None}], None, None]
    assert [row[4] for row in found.rows] == [None, {"k": 1}, None]
    assert [row[5] for row in found.rows] == [Decimal("1.5000"), Decimal("2.2500"), None]
    assert [row[6] for row in found.rows] == [None, "odd", None]
    assert [row[7] for row in found.rows] == [None, "yes", None]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", [1]),
        ("a >= 2", [2, 3]),
        ("added IS NULL", [1, 3]),
        ("added = 'yes'", [2]),
        ("pair.x = 5", [2]),
        ("pair.x = 1", [1]),
        ("pair.y IS NULL", [1, 3]),
        ("pair.y = 'q'", [2]),
        ("pair IS NULL", [3]),
        ("many[1].k = 1", [1]),
        ("tags['k'] = 1", [2]),
        ("price > 2", [2]),
        ("seen >= TIMESTAMPTZ '2026-01-01 13:00:00Z'", [3]),
        ("seen < '2026-01-01 13:00:00'", [1]),
        ('"odd ""name\'s" = \'odd\'', [2]),
    ],
)
def test_filters_reach_every_age_of_file(
    settings: Settings, evolved: LiveTable, condition: str, expected: list[int]
) -> None:
    sql = f"SELECT a FROM silver.evolved WHERE {condition} ORDER BY a"
    assert [row[0] for row in rows(settings, sql)] == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT pair.x, count(*) FROM silver.evolved GROUP BY 1 ORDER BY 1",
         [(1, 1), (5, 1), (None, 1)]),
        ("SELECT pair.y FROM silver.evolved ORDER BY 1", [("q",), (None,), (None,)]),
        ("SELECT e.a FROM silver.evolved e JOIN (VALUES (5)) v(k) ON e.pair.x = v.k", [(2,)]),
        ("SELECT a FROM silver.evolved ORDER BY pair.x DESC NULLS LAST LIMIT 1", [(2,)]),
    ],
)  # fmt: skip
def test_struct_fields_are_not_mixed_up_between_files(
    settings: Settings, evolved: LiveTable, sql: str, expected: list[object]
) -> None:
    """DuckDB 2.0.0 reads the wrong field here when left to push it into the scan."""
    assert rows(settings, sql) == expected


def test_filters_and_columns_are_pushed_into_the_files(settings: Settings, gold: LiveTable) -> None:
    sql = "EXPLAIN (FORMAT json) SELECT ticker FROM gold.stats WHERE trades > 4"
    plan = json.loads(str(rows(settings, sql)[0][1]))
    scan = plan[0]
    while scan["children"]:
        scan = scan["children"][0]
    assert scan["name"].strip() == "READ_PARQUET"
    assert scan["extra_info"]["Projections"] == "ticker"
    assert "trades > 4" in json.dumps(scan["extra_info"]["Filters"])


PARTITIONED = pa.table(
    {
        "p": ["a b", "x:y/z", "100%", "é", None, "a'b", "[1]*"],
        "d": pa.array([date(2026, 1, 1)] * 6 + [None]),
        "at": pa.array([NOON.replace(microsecond=5)] * 7, pa.timestamp("us", "UTC")),
        "n": pa.array([Decimal("1.25")] * 7, pa.decimal128(5, 2)),
        "ok": [True, False] * 3 + [None],
        "v": range(7),
    }
)


def test_partition_columns_come_back_typed(settings: Settings) -> None:
    write_deltalake(
        settings.warehouse / "silver" / "parts",
        PARTITIONED,
        partition_by=["p", "d", "at", "n", "ok"],
    )
    found = run_query(settings, "SELECT * FROM silver.parts ORDER BY v")
    assert found.columns == tuple(PARTITIONED.column_names)
    assert found.rows == [tuple(row.values()) for row in PARTITIONED.to_pylist()]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = 'x:y/z'", [1]),
        ("p IS NULL", [4]),
        ("p = '[1]*' AND v > 5", [6]),
        ("d = '2026-01-01' AND ok", [0, 2, 4]),
        ("d IS NULL", [6]),
    ],
)
def test_partition_filters(settings: Settings, condition: str, expected: list[int]) -> None:
    write_deltalake(
        settings.warehouse / "silver" / "parts", PARTITIONED, partition_by=["p", "d", "ok"]
    )
    sql = f"SELECT v FROM silver.parts WHERE {condition} ORDER BY v"
    assert [row[0] for row in rows(settings, sql)] == expected


def test_a_partitioned_live_table_needs_no_partition_folders(
    settings: Settings, live: Callable[[str], LiveTable]
) -> None:
    """The log says which partition a file is in, the path need not."""
    table = live("gold.stats").create(STATS, partition_by=["ticker"])
    for ticker, trades in (("A", 1), ("B", 2), ("A", 3)):
        body = table.write(pa.table({"trades": [trades], "price": [1.0]}))
        table.commit({"add": {**body, "partitionValues": {"ticker": ticker}}})
    assert rows(settings, "SELECT ticker, sum(trades) FROM gold.stats GROUP BY 1 ORDER BY 1") == [
        ("A", 4),
        ("B", 2),
    ]


def test_times_are_utc_whatever_the_machine_thinks(
    settings: Settings, live: Callable[[str], LiveTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    schema = pa.schema([("seen", pa.timestamp("us", "UTC"))])
    live("gold.times").create(schema).append(pa.table({"seen": [NOON]}, schema))
    sql = "SELECT seen::VARCHAR, hour(seen), seen FROM gold.times"
    assert rows(settings, sql) == [("2026-01-01 12:00:00+00", 12, NOON)]
