"""Loads and what they come to, as a plain batch."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from tests.oracles import in_order, samples, trucks
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark


def test_truck_loads(table, frame, dice):
    positions = trucks.silver_truck_positions(samples.sent(samples.truck_positions(dice, 80)))
    out = table("silver.truck_loads")(frame(positions, "silver.truck_positions"))
    assert types(out.toArrow().schema) == types(TABLES["silver.truck_loads"])
    newest = Window.partitionBy("region", "truck_id", "route_id").orderBy(
        F.desc("seen_at"), F.desc("partition"), F.desc("offset")
    )
    out = out.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n")
    assert in_order(out.toArrow().to_pylist()) == in_order(trucks.truck_loads(positions))


def test_merchandise_by_region(table, frame, dice):
    positions = trucks.silver_truck_positions(samples.sent(samples.truck_positions(dice, 80)))
    loads = trucks.truck_loads(positions)
    out = table("gold.merchandise_by_region")(frame(loads, "silver.truck_loads")).toArrow()
    assert types(out.schema) == types(TABLES["gold.merchandise_by_region"])
    assert in_order(out.to_pylist()) == in_order(trucks.merchandise_by_region(loads))


def test_a_pair_in_two_regions_counts_in_both_with_what_it_declared_there():
    seen = [("north", 100, 0), ("south", 70, 1), ("north", 90, 2)]
    positions = [
        {
            "truck_id": "T001",
            "route_id": "R01",
            "region": region,
            "merchandise": Decimal(load),
            "seen_at": samples.START,
            "partition": 0,
            "offset": offset,
        }
        for region, load, offset in seen
    ]
    told = trucks.merchandise_by_region(trucks.truck_loads(positions))
    assert {row["region"]: row["merchandise"] for row in told} == {"north": 90, "south": 70}
