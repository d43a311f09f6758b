"""A stack's marts from the first empty run to after a promote, in one JVM.

Run as a process of its own by test_marts.py: a session with a metastore cannot be had beside the
one the other tests share. What it saw is left in a JSON file; judging is the tests' matter.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.marts.run import Marts, at_work
from penstock.model import table, tumbling
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.swap import difference, swap
from penstock.settings import Settings
from penstock.testing import Kit
from tests.integration.marts_rows import CASTS, rows_of

MARTS = ("sensor_hours", "page_days", "stock_minutes")
# What reads the tables the story fills; the rest stays as empty as it was.
FILLED = ("stock_minutes+", "sensor_hours+", "page_days", "audience_days", "user_activity",
          "shop_days")  # fmt: skip
READINGS = pa.schema(
    [
        ("sensor_id", pa.string()),
        ("value", pa.float64()),
        ("measured_at", pa.timestamp("us", tz="UTC")),
    ]
)
START = dt.datetime(2026, 11, 1, 8, tzinfo=dt.UTC)


@table(
    "gold.sensor_5m",
    inputs={"readings": "silver.readings"},
    kind=tumbling("5 minutes", on="measured_at", lateness="30 seconds", reconcile_within="7 days"),
    keys=("sensor_id", "window_start"),
)
def without_outliers(readings: DataFrame) -> DataFrame:
    """The table after a change: high values are left out, and so is one sensor altogether."""
    exact = F.col("value").cast("decimal(20,6)")
    kept = readings.where((F.col("value") < 40) & (F.col("sensor_id") != "gone"))
    return kept.groupBy("sensor_id", "window_start", "window_end").agg(
        F.min("value").alias("min_value"),
        F.max("value").alias("max_value"),
        F.avg(exact).cast("double").alias("mean_value"),
        F.percentile("value", F.lit(0.95)).alias("p95_value"),
        F.count(F.lit(1)).alias("readings"),
    )


def readings() -> list[dict[str, Any]]:
    """Three days; in the first, and only there, high values and the sensor that will go."""
    rows = []
    for minute in range(0, 3 * 24 * 60, 7):
        at = START + dt.timedelta(minutes=minute)
        first = at.date() == START.date()
        for number, sensor in enumerate(("a", "b", *(["gone"] if first else []))):
            high = 50 if first and sensor == "a" and minute % 70 == 0 else 0
            rows.append({"sensor_id": sensor, "value": minute % 13 + number / 3 + high,
                         "measured_at": at})  # fmt: skip
    return rows


class Story:
    """The steps, and what was seen after each."""

    def __init__(self, marts: Marts, settings: Settings) -> None:
        self.first, self.settings = marts, settings
        self.seen: dict[str, Any] = {}

    def run(self, step: str, *select: str, full: bool = False) -> None:
        # A new one each time, as another process would be; the session is the same.
        fresh = Marts(self.settings, self.first.places, self.first.session, self.first.report)
        outcome = fresh.build(select, full=full)
        tables = {mart: self.rows(mart) for mart in MARTS}
        self.seen[step] = {**outcome.as_dict(), "tables": tables, "read": fresh.register().tables}

    def rows(self, mart: str) -> list[list[str]]:
        return rows_of(DeltaTable(str(self.settings.warehouse / "marts" / mart)).to_pyarrow_table())

    def fill(self) -> Kit:
        for name, rows in data().items():
            put(self.settings, name, rows)
        jobs = Bundle(self.settings.project, "spark_jobs").catalog()
        live = next(t for t in jobs.tables.values() if str(t.name) == "gold.sensor_5m")
        kit = Kit(self.first.session, self.settings.warehouse, live, READINGS)
        kit.feed(readings())
        return kit

    def promote(self, kit: Kit) -> None:
        new = kit.candidate(without_outliers, build=True).follower.writer
        old = kit.follower.writer
        scratch = self.settings.run / "swap"
        known = difference(old, old.log.version, new, new.log.version, scratch)
        swap(old.live, new, known, kit.table.keys, {"operation": "PENSTOCK PROMOTE"})

    def correct(self) -> None:
        """What a reconcile or a late dimension does: rows of long ago change and go."""
        clicks = DeltaTable(str(self.settings.warehouse / "gold" / "clicks_enriched"))
        clicks.update(updates={"tier": "'gold'"}, predicate="click_id = 'c-3'")
        clicks.delete("page = '/only-old'")
        stats = DeltaTable(str(self.settings.warehouse / "gold" / "stock_stats"))
        stats.update(updates={"trades": "trades + 100"}, predicate="ticker = 'A' and trades = 3")

    def casts(self) -> None:
        """Each cast through dbt's own door, and through a view: views keep settings of theirs."""
        from dbt.adapters.spark.session import Connection

        self.seen["casts"] = {text: answer(Connection().cursor(), text) for text in CASTS}
        self.seen["views"] = {text: by_view(Connection().cursor(), text) for text in CASTS}
        self.seen["ansi"] = self.first.session.conf.get("spark.sql.ansi.enabled")


def answer(cursor: Any, text: str) -> str:
    try:
        cursor.execute(f"select cast({text} as string)")
        return str(cursor.fetchall()[0][0])
    except Exception:
        return "refused"


def by_view(cursor: Any, text: str) -> str:
    try:
        cursor.execute(
            f"create or replace view staging.cast_of as select cast({text} as string) as it"
        )
        cursor.execute("select * from staging.cast_of")
        return str(cursor.fetchall()[0][0])
    except Exception:
        return "refused"


def put(settings: Settings, name: str, rows: pa.Table) -> None:
    layer, bare = name.split(".")
    write_deltalake(
        str(settings.warehouse / layer / bare),
        rows,
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def data() -> dict[str, pa.Table]:
    """Live tables other than the sensors'; the last day of each is where new rows come."""
    utc = pa.timestamp("us", tz="UTC")
    stats = [
        {"ticker": t, "min_ask_price": Decimal(10 + n % 7), "trades": n % 4 + 1,
         "avg_price": Decimal(20 + n % 5), "window_start": START + dt.timedelta(seconds=n),
         "window_end": START + dt.timedelta(seconds=n + 5), "is_final": n < 7000}
        for n in range(7200)
        for t in ("A", "B")
    ]  # fmt: skip
    clicks = [
        {"click_id": f"c-{n}", "user_id": n % 5 or None,
         "page": "/only-old" if n == 1 else f"/{n % 3}",
         "clicked_at": START + dt.timedelta(hours=n), "known": n % 5 > 1, "user_name": f"u{n % 5}",
         "country": "DE" if n % 2 else None, "tier": "basic", "profile_from": None}
        for n in range(60)
    ]  # fmt: skip
    decimal = pa.decimal128
    booking = [("model", pa.string()), ("size", pa.string()), ("quantity", pa.int32())]
    return {
        "gold.stock_stats": pa.Table.from_pylist(stats, pa.schema([
            ("ticker", pa.string()), ("min_ask_price", decimal(12, 4)), ("trades", pa.int64()),
            ("avg_price", decimal(16, 8)), ("window_start", utc), ("window_end", utc),
            ("is_final", pa.bool_())])),
        "gold.clicks_enriched": pa.Table.from_pylist(clicks, pa.schema([
            ("click_id", pa.string()), ("user_id", pa.int64()), ("page", pa.string()),
            ("clicked_at", utc), ("known", pa.bool_()), ("user_name", pa.string()),
            ("country", pa.string()), ("tier", pa.string()), ("profile_from", utc)])),
        "silver.sales": pa.Table.from_pylist([
            {"sale_id": f"s-{n}", "model": "m", "size": "40", "quantity": n % 3 + 1,
             "revenue": Decimal(n), "sold_at": START + dt.timedelta(hours=n)} for n in range(50)
        ], pa.schema([("sale_id", pa.string()), *booking, ("revenue", decimal(18, 2)),
                      ("sold_at", utc)])),
    }  # fmt: skip


def tell(settings: Settings, to: Path) -> None:
    with at_work(settings, report=lambda text: print(text, file=sys.stderr)) as marts:
        story = Story(marts, settings)
        story.run("empty")
        story.casts()
        kit = story.fill()
        story.run("filled", *FILLED)
        story.seen["live"] = live_versions(settings)
        story.run("again", *MARTS)
        story.seen["live again"] = live_versions(settings)
        story.promote(kit)
        story.correct()
        story.run("changed", *MARTS)
        story.run("full", *MARTS, full=True)
        unit = Marts(settings, marts.places, marts.session, marts.report).test(["test_type:unit"])
        story.seen["unit"] = unit.as_dict()
        story.seen["docs"] = str(marts.docs())
    to.write_text(json.dumps(story.seen, default=str))


def live_versions(settings: Settings) -> dict[str, int]:
    found = settings.warehouse.glob("[sg]*/*/_delta_log")
    return {str(log.parent): DeltaTable(str(log.parent)).version() for log in found}


if __name__ == "__main__":
    tell(Settings.load(), Path(sys.argv[1]))
