"""Window tables as a plain batch: windows laid out here, not by the engine."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import functions as F

from tests.oracles import in_order, markets, samples, sensors
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark

FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def in_windows(frame, on: str, size: str, every: str):
    """Spark's own windows, as the columns a transform groups by."""
    return (
        frame.withColumn("w", F.window(on, size, every))
        .withColumn("window_start", F.col("w.start"))
        .withColumn("window_end", F.col("w.end"))
        .drop("w")
    )


def test_stock_stats(table, frame, dice):
    trades = markets.silver_trades(samples.sent(samples.trades(dice, 80)))
    rows = in_windows(frame(trades, "silver.trades"), "traded_at", "5 seconds", "1 second")
    out = table("gold.stock_stats")(rows).toArrow()
    told = TABLES["gold.stock_stats"]
    assert types(out.schema) == types(told)[:-1]
    expected = markets.stock_stats(trades, FAR)
    for row in expected:
        assert row.pop("is_final")
    assert in_order(out.to_pylist()) == in_order(expected)


def test_sensor_5m(table, frame, dice):
    readings = sensors.silver_readings(samples.sent(samples.readings(dice, 200)))
    rows = in_windows(frame(readings, "silver.readings"), "measured_at", "5 minutes", "5 minutes")
    out = table("gold.sensor_5m")(rows).toArrow()
    assert types(out.schema) == types(TABLES["gold.sensor_5m"])
    assert in_order(out.to_pylist()) == in_order(sensors.sensor_5m(readings, FAR))


def test_sensor_5m_does_not_depend_on_the_order_of_rows(table, frame, dice):
    readings = sensors.silver_readings(samples.sent(samples.readings(dice, 120)))
    outs = []
    for _ in range(3):
        dice.shuffle(readings)
        rows = frame(readings, "silver.readings").repartition(dice.randrange(1, 5))
        rows = in_windows(rows, "measured_at", "5 minutes", "5 minutes")
        outs.append(in_order(table("gold.sensor_5m")(rows).toArrow().to_pylist()))
    assert outs[0] == outs[1] == outs[2]


def test_windows_that_the_watermark_has_not_passed_are_not_final():
    start = samples.START
    trade = {"ticker": "A", "price": 1, "ask_price": 1, "traded_at": start}
    told = markets.stock_stats([trade], start + dt.timedelta(seconds=2))
    assert [(row["window_end"] - start).seconds for row in told if row["is_final"]] == [2, 1]
    reading = {"sensor_id": "a", "value": 1.0, "measured_at": start}
    assert sensors.sensor_5m([reading], start + dt.timedelta(seconds=299)) == []
    assert len(sensors.sensor_5m([reading], start + dt.timedelta(seconds=300))) == 1
