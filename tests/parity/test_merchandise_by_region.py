"""gold.merchandise_by_region: loads are declared anew, and every region stays exact."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, trucks
from tests.oracles.plans import agree, become, few
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "silver.truck_loads"


@few
@given(
    dice=st.randoms(use_true_random=False),
    steps=st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=2, max_size=4),
)
def test_stream_equals_batch_equals_oracle(spark, jobs, dice, steps):
    table = jobs.tables[TableName.parse("gold.merchandise_by_region")]
    positions = trucks.silver_truck_positions(samples.sent(samples.truck_positions(dice, 32)))
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, {INPUT: TABLES[INPUT]}, changing=[INPUT])
        state, seen = [], 0
        for more, restart in steps:
            if restart:
                kit.restart()
            seen += more
            after = trucks.truck_loads(positions[:seen])
            become(kit, INPUT, state, after)
            state = after
        agree(kit, trucks.merchandise_by_region(state))
