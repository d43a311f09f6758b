"""A device that was offline for two hours returns with two hours of data."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from penstock.model import table, tumbling
from penstock.testing import Kit

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [("device", pa.string()), ("value", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
)


@table(
    "gold.per_device",
    inputs={"readings": "silver.readings"},
    kind=tumbling("5 minutes", on="at", lateness="30 seconds", reconcile_within="1 day"),
    keys=("device", "window_start"),
)
def per_device(readings):
    return readings.groupBy("device", "window_start", "window_end").agg(
        F.count(F.lit(1)).alias("readings"), F.sum("value").alias("total")
    )


def minute(device: str, number: int) -> dict:
    return {"device": device, "value": number, "at": NOON + dt.timedelta(minutes=number)}


def expected(rows: list[dict], until: dt.datetime) -> list[tuple]:
    """Recounted in plain Python."""
    windows: dict[tuple, list[int]] = defaultdict(list)
    for row in rows:
        start = row["at"] - dt.timedelta(minutes=row["at"].minute % 5)
        windows[row["device"], start].append(row["value"])
    return sorted(
        (device, start, len(values), sum(values))
        for (device, start), values in windows.items()
        if start + dt.timedelta(minutes=5) <= until
    )


def test_two_hours_offline(spark, tmp_path):
    kit = Kit(spark, tmp_path, per_device, SCHEMA)
    steady = [minute("steady", number) for number in range(180)]
    away = [minute("away", number) for number in range(30, 150)]
    for start in range(0, 150, 15):
        kit.feed(steady[start : start + 15])
    before = kit.rows()
    assert {row["device"] for row in before} == {"steady"}

    kit.restart()
    kit.feed(away)  # all of it at once, oldest first
    closed = (kit.follower.watermark, len(kit.late()))
    assert closed[1] == sum(1 for row in away if row["at"] < NOON + dt.timedelta(minutes=145))
    kit.feed(steady[150:])
    assert [r for r in kit.rows() if r["device"] == "away"] != expected(away, NOON), "not yet"

    done = kit.reconcile()
    assert done["late"] == closed[1]
    assert done["changed"] == (145 - 30) // 5, "one row of the table per window that was missed"
    until = NOON + dt.timedelta(minutes=179) - dt.timedelta(seconds=30)
    got = sorted((r["device"], r["window_start"], r["readings"], r["total"]) for r in kit.rows())
    assert got == expected([*steady, *away], until)
    assert kit.rows() == kit.batch_rows()
    assert kit.late() == []
    assert not any(kit.balance().values())
    assert kit.reconcile() == {"late": 0, "results": 0, "changed": 0}, "once is enough"


def test_past_its_time_a_row_expires_and_stays_listed(spark, tmp_path):
    kit = Kit(spark, tmp_path, per_device, SCHEMA)
    kit.feed([minute("steady", 0), minute("steady", 10), minute("steady", 60 * 30)])
    kit.feed([minute("away", 1), minute("away", 60 * 29)])
    assert [(r["status"], r["value"].count("away")) for r in kit.late()] == [
        ("late", 1),
        ("expired", 1),
    ] or sorted(r["status"] for r in kit.late()) == ["expired", "late"]
    kit.reconcile()
    assert [row["status"] for row in kit.late()] == ["expired"]
    assert kit.outcomes() == {"counted": 4, "expired": 1}
    assert kit.rows() == kit.batch_rows()
