"""gold.sensor_5m as a stream, in any batching and order, is its batch form and the oracle's."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, in_order, samples, sensors
from tests.oracles.plans import Plan, agree, few, plans
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "silver.readings"
LATENESS = dt.timedelta(seconds=30)


@pytest.fixture
def table(jobs):
    return jobs.tables[TableName.parse("gold.sensor_5m")]


def reading(seconds: float, value: float = 1.0, number: int = 0) -> Row:
    return {
        "sensor_id": "boiler-1",
        "value": value,
        "unit": "celsius",
        "calibration": False,
        "measured_at": samples.START + dt.timedelta(seconds=seconds),
        "partition": 0,
        "offset": number,
    }


def arriving(dice: random.Random, count: int) -> list[Row]:
    """Readings over forty minutes, each less than the lateness after its time."""
    meant = [
        (dice.randrange(2_400_000), dice.randrange(30_000), dice.uniform(-1e5, 1e6), dice.random())
        for _ in range(count)
    ]
    meant.sort(key=lambda reading: reading[0] + reading[1])
    return [
        {**reading(at / 1000, value, n), "sensor_id": "boiler-1" if which < 0.5 else "hall-1"}
        for n, (at, _, value, which) in enumerate(meant)
    ]


@few
@given(plan=plans({INPUT: arriving}))
def test_stream_equals_batch_equals_oracle(spark, table, plan: Plan):
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, schemas={INPUT: TABLES[INPUT]})
        plan.carry_out(kit)
        rows = plan.fed(INPUT)
        watermark = max(row["measured_at"] for row in rows) - LATENESS
        agree(kit, sensors.sensor_5m(rows, watermark))
        assert kit.late() == [], "within lateness nothing is late"


def test_late_readings_wait_for_reconcile_and_then_count(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, schemas={INPUT: TABLES[INPUT]})
    first = [reading(0, 10.0, 0), reading(400, 20.0, 1)]
    kit.feed(first, to=INPUT)
    before = kit.rows()
    late = [reading(10, 30.0, 2)]
    kit.feed(late, to=INPUT)
    assert kit.rows() == before
    assert kit.outcomes() == {"counted": 2, "late": 1}
    assert len(kit.late()) == 1
    kit.reconcile()
    watermark = samples.START + dt.timedelta(seconds=370)
    expected = sensors.sensor_5m([*first, *late], watermark)
    assert in_order(kit.rows()) == in_order(expected) == in_order(kit.batch_rows())
