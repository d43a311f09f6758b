"""silver.regions, silver.fraud_rules, silver.loyalty: change capture becomes the same history."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import captured, samples
from tests.oracles.plans import TRIES, Plan, agree, plans, tried
from tests.oracles.wire import debezium_bytes

pytestmark = pytest.mark.spark

TAKEN_IN = samples.START + dt.timedelta(hours=1)


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", captured.SOURCES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table = jobs.tables[TableName.parse(f"silver.{name}")]
    stream = jobs.streams[TableName.parse(f"bronze.{name}")]

    @tried(tries)
    @given(plan=plans({stream.topic: captured.changes(name)}), mixed=st.randoms())
    def holds(plan: Plan, mixed) -> None:
        told = []
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, stream=stream)
            for number, (_, changes) in enumerate(plan.batches):
                if number in plan.restarts:
                    kit.restart()
                mixed.shuffle(changes)
                kit.feed([debezium_bytes(change) for change in changes], at=TAKEN_IN)
                told += changes
            taken = [{**change, "_offset": offset} for offset, change in enumerate(told)]
            agree(kit, captured.versions(name, taken))

    holds()
