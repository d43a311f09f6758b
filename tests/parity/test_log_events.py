"""gold.error_events, gold.other_events, gold.word_counts: lines branched, and words counted."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import logs, samples
from tests.oracles.plans import TRIES, Plan, agree, plans, tried
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "silver.app_logs"
ORACLES = {
    "gold.error_events": logs.error_events,
    "gold.other_events": logs.other_events,
    "gold.word_counts": logs.word_counts,
}


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", ORACLES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table = jobs.tables[TableName.parse(name)]

    @tried(tries)
    @given(
        plan=plans(
            {INPUT: lambda dice, n: logs.silver_app_logs(samples.sent(samples.app_logs(dice, n)))}
        )
    )
    def holds(plan: Plan) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, {INPUT: TABLES[INPUT]})
            plan.carry_out(kit)
            agree(kit, ORACLES[name](plan.fed(INPUT)))

    holds()
