"""gold.inventory_by_model: a chain over a table that changes as it goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, shop
from tests.oracles.plans import agree, become, few
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "gold.inventory"


@few
@given(
    dice=st.randoms(use_true_random=False),
    steps=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=2, max_size=4),
)
def test_stream_equals_batch_equals_oracle(spark, jobs, dice, steps):
    table = jobs.tables[TableName.parse("gold.inventory_by_model")]
    shipments = shop.silver_shipments(samples.sent(samples.shipments(dice, 24)))
    sales = shop.silver_sales(samples.sent(samples.sales(dice, 24)))
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, {INPUT: TABLES[INPUT]}, changing=[INPUT])
        state, booked = [], 0
        for more, restart in steps:
            if restart:
                kit.restart()
            booked += more
            after = shop.inventory(shipments[: booked // 2], sales[:booked], [])
            become(kit, INPUT, state, after)
            state = after
        agree(kit, shop.inventory_by_model(state))


def test_a_model_whose_rows_are_gone_is_gone(spark, jobs, tmp_path):
    table = jobs.tables[TableName.parse("gold.inventory_by_model")]
    kit = Kit(spark, tmp_path, table, {INPUT: TABLES[INPUT]}, changing=[INPUT])
    rows = shop.inventory(
        [{"model": m, "size": "42", "quantity": 3, "cost": 1} for m in ("boot", "runner")], [], []
    )
    kit.feed(rows)
    kit.remove(rows[:1])
    agree(kit, shop.inventory_by_model(rows[1:]))
