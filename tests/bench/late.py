"""A million readings, five in a hundred late by up to a day: after reconcile, is it exact?

Usage: python tests/bench/late.py [--rows 1000000] [--batch 20000]

Runs gold.sensor_5m over two days of readings in order of arrival, reconciles, and compares every
row and column with the batch recompute and with DuckDB, which shares no code with either.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from penstock.model.names import TableName
from penstock.runtime.code.bundle import Bundle
from penstock.settings import Settings
from penstock.spark.session import build_session
from penstock.testing import Kit

PROJECT = Path(__file__).resolve().parents[2]
START = int(dt.datetime(2026, 5, 1, tzinfo=dt.UTC).timestamp() * 1_000_000)
DAY = 86_400_000_000
SENSORS = 20
STAMP = pa.timestamp("us", tz="UTC")


def readings(rows: int, schema: pa.Schema, seed: int = 7) -> pa.Table:
    """In order of arrival."""
    dice = np.random.default_rng(seed)
    times = np.sort(dice.integers(0, 2 * DAY, rows))
    late = dice.random(rows) < 0.05
    arrives = times + np.where(late, dice.integers(60_000_000, DAY, rows), 0)
    order = np.argsort(arrives, kind="stable")
    columns = {
        "sensor_id": pa.array([f"s{n:02d}" for n in dice.integers(0, SENSORS, rows)]),
        "value": pa.array(dice.integers(-4000, 9000, rows) / 100.0),
        "unit": pa.array(["C"] * rows),
        "calibration": pa.array(np.zeros(rows, bool)),
        "measured_at": pa.array(times + START, pa.int64()).cast(STAMP),
        "partition": pa.array(np.zeros(rows), pa.int32()),
        "offset": pa.array(np.arange(rows), pa.int64()),
    }
    table = pa.table({name: columns[name] for name in schema.names}).cast(schema)
    return table.take(pa.array(order))


def recounted(rows: pa.Table, until: int) -> list[tuple]:
    """Independent of the engine and of Spark."""
    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    found = duck.execute(
        """with placed as (
               select *, (epoch_us(measured_at) // 300000000) * 300000000 as w from rows)
           select sensor_id, w, min(value), max(value), count(*), quantile_cont(value, 0.95),
                  sum(cast(value as decimal(18, 6)))
           from placed where w + 300000000 <= ? group by sensor_id, w order by 1, 2""",
        [until],
    )
    return found.fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    options = parser.parse_args()
    table = Bundle(PROJECT, "spark_jobs").catalog().tables[TableName.parse("gold.sensor_5m")]
    schema = pa.schema(
        [
            ("sensor_id", pa.string()),
            ("value", pa.float64()),
            ("unit", pa.string()),
            ("calibration", pa.bool_()),
            ("measured_at", STAMP),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
        ]
    )
    rows = readings(options.rows, schema)
    with tempfile.TemporaryDirectory() as folder:
        home = replace(Settings.load(), home=Path(folder) / "home")
        spark = build_session(home, "bench-late", memory="4g")
        kit = Kit(spark, Path(folder) / "kit", table, schema)
        started = time.perf_counter()
        for start in range(0, rows.num_rows, options.batch):
            kit.feed(rows.slice(start, options.batch))
        fed = time.perf_counter()
        listed = len(kit.late())
        print(f"fed {rows.num_rows} rows in {fed - started:.1f} s; {listed} late, {kit.outcomes()}")
        print("differs before reconcile:", kit.rows() != kit.batch_rows())
        begun = time.perf_counter()
        print("reconcile:", kit.reconcile(), f"in {time.perf_counter() - begun:.1f} s")
        streamed, batched = kit.rows(), kit.batch_rows()
        print("rows:", len(streamed), "equal to batch:", streamed == batched)
        differences = _differences(streamed, recounted(rows, kit.follower.watermark))
        print("differences to DuckDB:", differences, "balance:", kit.balance())
        spark.stop()
    return 0 if streamed == batched and not differences else 1


def _differences(streamed: list[dict], recount: list[tuple]) -> int:
    def micros(at: dt.datetime) -> int:
        return round(at.timestamp()) * 1_000_000

    ours = {
        (r["sensor_id"], micros(r["window_start"])): (
            r["min_value"], r["max_value"], r["readings"],
            round(float(r["p95_value"]), 9), r["mean_value"],
        )
        for r in streamed
    }  # fmt: skip
    theirs = {
        (sensor, at): (low, high, count, round(p95, 9), _mean(total, count))
        for sensor, at, low, high, count, p95, total in recount
    }
    wrong = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    for key in wrong[:3]:
        print("differs:", key, ours.get(key), theirs.get(key))
    return len(wrong)


def _mean(total: Decimal, count: int) -> float:
    """As the table promises it: ten digits after the point. DuckDB would divide as doubles."""
    return float((total / count).quantize(Decimal("1e-10"), ROUND_HALF_UP))


if __name__ == "__main__":
    sys.exit(main())
