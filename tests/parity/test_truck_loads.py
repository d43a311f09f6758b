"""silver.truck_loads: the newest sighting wins, in whatever order sightings come."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, trucks
from tests.oracles.plans import Plan, agree, few, plans
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "silver.truck_positions"


@few
@given(
    plan=plans(
        {
            INPUT: lambda dice, n: trucks.silver_truck_positions(
                samples.sent(samples.truck_positions(dice, n))
            )
        }
    )
)
def test_stream_equals_batch_equals_oracle(spark, jobs, plan: Plan):
    table = jobs.tables[TableName.parse("silver.truck_loads")]
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, schemas={INPUT: TABLES[INPUT]})
        plan.carry_out(kit)
        agree(kit, trucks.truck_loads(plan.fed(INPUT)))
