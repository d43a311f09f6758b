"""gold.inventory: three streams booked in any order come to the same totals as their batch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, shop
from tests.oracles.plans import Plan, agree, few, plans
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUTS = {
    "silver.shipments": lambda dice, n: shop.silver_shipments(
        samples.sent(samples.shipments(dice, n))
    ),
    "silver.sales": lambda dice, n: shop.silver_sales(samples.sent(samples.sales(dice, n))),
    "silver.returns": lambda dice, n: shop.silver_returns(samples.sent(samples.returns(dice, n))),
}


@few
@given(plan=plans(INPUTS, most=10))
def test_stream_equals_batch_equals_oracle(spark, jobs, plan: Plan):
    table = jobs.tables[TableName.parse("gold.inventory")]
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, schemas={name: TABLES[name] for name in INPUTS})
        plan.carry_out(kit)
        agree(kit, shop.inventory(*(plan.fed(name) for name in INPUTS)))
