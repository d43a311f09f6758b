"""Good rows of every table of ours, from the oracles; and a stack on disk that holds some."""

from __future__ import annotations

import datetime as dt
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.ingest.bronze import BronzeWriter, bronze_schema
from penstock.settings import Settings
from tests.oracles import logs, markets, samples, sensors, shop, trucks, visits, web
from tests.oracles.catalogue import catalogue_rows
from tests.oracles.shapes import TABLES

__all__ = ["PROJECT", "Row", "Stand", "bronze_rows", "good_rows", "write_suite"]

PROJECT = Path(__file__).resolve().parents[3]
Row = dict[str, Any]
LATE = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@cache
def _good() -> dict[str, list[Row]]:
    dice, some = random.Random(11), samples.sent
    trades = markets.silver_trades(some(samples.trades(dice, 300)))
    readings = sensors.silver_readings(some(samples.readings(dice, 300)))
    shipments = shop.silver_shipments(some(samples.shipments(dice, 60)))
    sales = shop.silver_sales(some(samples.sales(dice, 60)))
    returns = shop.silver_returns(some(samples.returns(dice, 60)))
    positions = trucks.silver_truck_positions(some(samples.truck_positions(dice, 60)))
    clicks = web.silver_clicks(some(samples.clicks(dice, 120)))
    users = web.users_history(some(samples.user_changes(dice, 60)))
    inventory = shop.inventory(shipments, sales, returns)
    loads = trucks.truck_loads(positions)
    return {
        **_searched(dice, clicks, users),
        **_logged(dice),
        **_traded(trades),
        **catalogue_rows(),
        "silver.trades": trades,
        "silver.readings": readings,
        "silver.shipments": shipments,
        "silver.sales": sales,
        "silver.returns": returns,
        "silver.truck_positions": positions,
        "silver.truck_loads": loads,
        "silver.clicks": clicks,
        "silver.users": users,
        "gold.stock_stats": markets.stock_stats(trades, LATE),
        "gold.sensor_5m": sensors.sensor_5m(readings, LATE),
        "gold.big_sales": shop.big_sales(
            [{**sale, "revenue": sale["revenue"] + 20_000} for sale in sales]
        ),
        "gold.inventory": inventory,
        "gold.inventory_by_model": shop.inventory_by_model(inventory),
        "gold.returns_by_reason": shop.returns_by_reason(returns),
        "gold.merchandise_by_region": trucks.merchandise_by_region(loads),
        "gold.clicks_enriched": web.clicks_enriched(clicks, users),
    }


def _searched(dice: random.Random, clicks: list[Row], users: list[Row]) -> dict[str, list[Row]]:
    searches = visits.silver_searches(samples.sent(samples.searches(dice, 120)))
    views = visits.clicks_with_search(clicks, searches, LATE)
    results = visits.result_clicks(views)
    return {
        "silver.searches": searches,
        "gold.clicks_with_search": views,
        "gold.user_activity": visits.user_activity(views, users),
        "gold.page_stats": visits.page_stats(clicks),
        "gold.zip_stats": visits.zip_stats(web.clicks_enriched(clicks, users)),
        "gold.result_clicks": results,
        "gold.query_top_results": visits.query_top_results(results),
    }


def _logged(dice: random.Random) -> dict[str, list[Row]]:
    lines = logs.silver_app_logs(samples.sent(samples.app_logs(dice, 60)))
    return {
        "silver.app_logs": lines,
        "gold.error_events": logs.error_events(lines),
        "gold.other_events": logs.other_events(lines),
        "gold.word_counts": logs.word_counts(lines),
    }


def _traded(trades: list[Row]) -> dict[str, list[Row]]:
    """The same trades, of more stocks and over hours."""
    spread = [
        {
            **row,
            "ticker": f"{row['ticker']}{n % 20}",
            "traded_at": samples.START + dt.timedelta(seconds=20 * n),
        }
        for n, row in enumerate(trades)
    ]
    bars = markets.stock_bars(spread, LATE)
    days = markets.stock_daily(bars)
    return {
        "gold.stock_bars": bars,
        "gold.stock_daily": days,
        "gold.top_stocks_daily": markets.top_stocks_daily(days),
    }


def good_rows(table: str) -> list[Row]:
    """Rows that a table of ours may hold; copies, to be spoilt."""
    return [dict(row) for row in _good()[table]]


def bronze_rows(topic: str, count: int = 20) -> list[Row]:
    return [
        {"key": b"k", "value": b"\x00v", "headers": [], "cluster_id": "c", "topic": topic,
         "topic_id": "Tid/1", "partition": n % 2, "offset": n // 2, "timestamp": samples.START,
         "timestamp_type": 0, "ingested_at": samples.START + dt.timedelta(seconds=n)}
        for n in range(count)
    ]  # fmt: skip


class Stand:
    """Tables written by the engine's own writers, and a manifest that knows them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.entries: dict[str, Row] = {}
        self.writers: dict[str, RevisionWriter] = {}

    def put(
        self,
        table: str,
        rows: list[Row],
        schema: pa.Schema | None = None,
        *,
        revision: str = "r1",
        live: bool = True,
        **declared: Any,
    ) -> RevisionWriter:
        """A table of one revision with these rows; more rows of one that is there."""
        schema = schema or TABLES[table]
        name = TableName.parse(table)
        writer = self.writers.get(f"{table}@{revision}")
        if writer is None:
            warehouse = self.settings.warehouse
            writer = RevisionWriter(warehouse, name, revision, schema, token=1, live=live)
            self.writers[f"{table}@{revision}"] = writer
        files = write_arrow(pa.Table.from_pylist(rows, schema), writer.path)
        writer.commit(files, {"test": writer.log.version})
        if live:
            known = {"name": table, "layer": name.layer, "kind": "rows", "revision": revision}
            self.declare({**known, "keys": [], "inputs": {}, **declared})
        return writer

    def put_bronze(self, table: str, topic: str, rows: list[Row]) -> None:
        writer = BronzeWriter(
            self.settings.warehouse, TableName.parse(table), token=1, topic_id="Tid/1"
        )
        records = pa.Table.from_pylist(rows, bronze_schema())
        writer.append(write_arrow(records, writer.path), {0: 10, 1: 10}, records)
        self.declare({"name": table, "layer": "bronze", "kind": "stream", "topic": topic})

    def declare(self, entry: Row) -> None:
        self.entries[entry["name"]] = {**self.entries.get(entry["name"], {}), **entry}
        self.settings.manifest.parent.mkdir(parents=True, exist_ok=True)
        told = {"tables": list(self.entries.values()), "broken": []}
        self.settings.manifest.write_text(json.dumps(told))


def write_suite(project: Path, table: str, body: str) -> Path:
    """A module in a project's ``expectations`` folder."""
    layer, _, name = table.partition(".")
    path = project / "expectations" / layer / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = (
        "import great_expectations.expectations as gxe\n"
        "from penstock.quality import Last, blocking, suite, warning\n\n"
    )
    path.write_text(head + body)
    return path
