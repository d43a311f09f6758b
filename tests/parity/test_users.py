"""silver.users: change capture in any batching and order becomes the same history."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, web
from tests.oracles.plans import Plan, agree, few, plans
from tests.oracles.wire import debezium_bytes

pytestmark = pytest.mark.spark

TAKEN_IN = samples.START + dt.timedelta(minutes=10)


@few
@given(plan=plans({"bronze.users": samples.user_changes}), mixed=st.randoms(), late=st.booleans())
def test_stream_equals_batch_equals_oracle(spark, jobs, plan: Plan, mixed, late):
    table = jobs.tables[TableName.parse("silver.users")]
    stream = jobs.streams[TableName.parse("bronze.users")]
    told = []
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, stream=stream)
        for number, (_, changes) in enumerate(plan.batches):
            if number in plan.restarts:
                kit.restart()
            if late:
                mixed.shuffle(changes)
            kit.feed([debezium_bytes(change) for change in changes], at=TAKEN_IN)
            told += changes
        taken = [{**change, "_offset": offset} for offset, change in enumerate(told)]
        agree(kit, web.users_history(taken))


def test_tombstones_are_no_rows_and_no_errors(spark, jobs, tmp_path):
    table = jobs.tables[TableName.parse("silver.users")]
    stream = jobs.streams[TableName.parse("bronze.users")]
    change = samples.user_changes(random.Random(1), 1)[0] | {"_op": "d"}
    kit = Kit(spark, tmp_path, table, stream=stream)
    kit.feed([debezium_bytes(change), None], at=TAKEN_IN)
    assert kit.rows() == []
    assert kit.quarantined() == []
