"""gold.big_sales: filtered and told to somebody, in any batching."""

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

INPUT = "silver.sales"


@few
@given(plan=plans({INPUT: lambda dice, n: shop.silver_sales(samples.sent(samples.sales(dice, n)))}))
def test_stream_equals_batch_equals_oracle(spark, jobs, plan: Plan):
    table = jobs.tables[TableName.parse("gold.big_sales")]
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, schemas={INPUT: TABLES[INPUT]})
        plan.carry_out(kit)
        agree(kit, shop.big_sales(plan.fed(INPUT)))
