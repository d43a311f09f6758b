"""The analysts' queries of docs/queries run on both exports, with the same results."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.export.clickhouse_places import session
from penstock.export.run import export_tables
from penstock.export.targets import open_target
from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter
from penstock.settings import Settings

QUERIES = sorted((Path(__file__).resolve().parents[3] / "docs" / "queries").glob("*.sql"))
START = dt.datetime(2026, 3, 1, 23, 50, tzinfo=dt.UTC)
TIME, MONEY = pa.timestamp("us", tz="UTC"), pa.decimal128(28, 2)
MODELS, SIZES = ("runner", "boot", "sandal"), range(38, 44)


def after(**step: float) -> dt.datetime:
    return START + dt.timedelta(**step)


def tables(dice: random.Random) -> dict[str, tuple[list[tuple[str, Any]], list[dict]]]:
    """Our gold tables, with rows as they might be: nulls, ties, gaps, negative stock."""
    sensors = [
        {"sensor_id": f"s{s}", "window_start": after(minutes=5 * n),
         "window_end": after(minutes=5 * n + 5), "min_value": dice.random(),
         "max_value": 10 + dice.random(), "mean_value": dice.gauss(5, 1),
         "p95_value": dice.gauss(9, 0.3) + (5 if n == 7 else 0), "readings": dice.randrange(1, 9)}
        for s in range(4) for n in range(12) if not (s == 1 and n in (4, 5))
    ]  # fmt: skip
    stocks = [
        {"ticker": t, "window_start": after(seconds=n), "window_end": after(seconds=n + 5),
         "min_ask_price": None if n == 3 else Decimal(dice.randrange(900, 1100)) / 100,
         "trades": dice.randrange(1, 20), "avg_price": 10 + dice.random(), "is_final": n < 100}
        for t in ("AAPL", "MSFT") for n in range(130)
    ]  # fmt: skip
    stock = {(m, s): dice.randrange(-2, 40) for m in MODELS for s in SIZES}
    made = {key: Decimal(dice.randrange(-9999, 99999)) / 100 for key in stock}
    sizes = [
        {"model": m, "size": s, "stock": stock[m, s], "money": made[m, s], "transactions": 3}
        for m, s in stock
    ]
    models = [
        {"model": m, "sizes_in_stock": sum(stock[m, s] > 0 for s in SIZES),
         "stock": sum(stock[m, s] for s in SIZES), "money": sum(made[m, s] for s in SIZES)
         + (1 if m == "boot" else 0)}
        for m in MODELS
    ]  # fmt: skip
    returns = [
        {"reason": r, "returns": n, "quantity": 2 * n, "refunded": Decimal(n * 59),
         "median_quantity": 1.5}
        for n, r in enumerate(("size", "colour", "damaged", None), start=1)
    ]  # fmt: skip
    regions = [
        {"region": r, "merchandise": Decimal(n * 1000), "pairs": n, "trucks": n - 1,
         "median_load": Decimal(n - 2), "p95_load": Decimal(n)}
        for n, r in enumerate(("north", "south", "east", "west"), start=1)
    ]  # fmt: skip
    clicks = [
        {"click_id": f"c{n}", "user_id": f"u{dice.randrange(9)}", "page": dice.choice("abc"),
         "clicked_at": after(minutes=n), "known": (known := dice.random() < 0.8),
         "user_name": "x" if known else None,
         "country": dice.choice(["DE", "FR"]) if known else None,
         "tier": dice.choice(["gold", "free"]) if known else None,
         "profile_from": START if known else None}
        for n in range(120)
    ]  # fmt: skip
    return {
        "sensor_5m": ([("sensor_id", pa.string()), ("window_start", TIME), ("window_end", TIME),
            ("min_value", pa.float64()), ("max_value", pa.float64()), ("mean_value", pa.float64()),
            ("p95_value", pa.float64()), ("readings", pa.int64())], sensors),
        "stock_stats": ([("ticker", pa.string()), ("window_start", TIME), ("window_end", TIME),
            ("min_ask_price", pa.decimal128(18, 4)), ("trades", pa.int64()),
            ("avg_price", pa.float64()), ("is_final", pa.bool_())], stocks),
        "inventory": ([("model", pa.string()), ("size", pa.int32()), ("stock", pa.int64()),
            ("money", MONEY), ("transactions", pa.int64())], sizes),
        "inventory_by_model": ([("model", pa.string()), ("sizes_in_stock", pa.int64()),
            ("stock", pa.int64()), ("money", MONEY)], models),
        "returns_by_reason": ([("reason", pa.string()), ("returns", pa.int64()),
            ("quantity", pa.int64()), ("refunded", MONEY), ("median_quantity", pa.float64())],
            returns),
        "merchandise_by_region": ([("region", pa.string()), ("merchandise", MONEY),
            ("pairs", pa.int64()), ("trucks", pa.int64()), ("median_load", pa.decimal128(18, 2)),
            ("p95_load", pa.decimal128(18, 2))], regions),
        "clicks_enriched": ([("click_id", pa.string()), ("user_id", pa.string()),
            ("page", pa.string()), ("clicked_at", TIME), ("known", pa.bool_()),
            ("user_name", pa.string()), ("country", pa.string()), ("tier", pa.string()),
            ("profile_from", TIME)], clicks),
    }  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    settings = Settings(project=home, home=home)
    settings.warehouse.mkdir()
    names = []
    for name, (schema, rows) in tables(random.Random(3)).items():
        table = TableName("gold", name)
        columns = pa.schema(schema)
        writer = RevisionWriter(settings.warehouse, table, "r1", columns, token=1, live=True)
        data = pa.Table.from_pylist(rows, columns)
        writer.commit(write_arrow(data, writer.path), {"n": 1})
        names.append(str(table))
    for target in ("duckdb", "clickhouse"):
        assert export_tables(settings, names, open_target(settings, target)).done
    with (
        duckdb.connect(open_target(settings, "duckdb").place, read_only=True) as duck,
        session(settings) as clickhouse,
    ):
        duck.execute("SET TimeZone = 'UTC'")
        yield duck, clickhouse


def alike(value: Any) -> Any:
    """Numbers of both engines as numbers, moments as moments; text and nulls as they are."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC)
    if isinstance(value, Decimal | float | int) and not isinstance(value, bool):
        return float(value)
    return value


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_the_same_on_both(exported, query):
    duck, clickhouse = exported
    by_duckdb = duck.sql(query.read_text()).to_arrow_table()
    answer = clickhouse.query(query.read_text(), "ArrowStream").bytes()
    if not answer and not by_duckdb.num_rows:
        return
    by_clickhouse = pa.ipc.open_stream(pa.py_buffer(answer)).read_all()
    assert by_clickhouse.column_names == by_duckdb.column_names
    assert by_clickhouse.num_rows == by_duckdb.num_rows > 0, "or nothing is shown"
    for ours, theirs in zip(by_duckdb.to_pylist(), by_clickhouse.to_pylist(), strict=True):
        for name, one in ours.items():
            left, right = alike(one), alike(theirs[name])
            if isinstance(left, float) and isinstance(right, float):
                assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9), (name, left, right)
            else:
                assert left == right, name


def test_there_are_enough():
    assert len(QUERIES) >= 10
