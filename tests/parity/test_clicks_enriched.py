"""gold.clicks_enriched: each click with its user as he was then, also when that comes late."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, web
from tests.oracles.plans import agree, become, few
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

CLICKS, USERS = "silver.clicks", "silver.users"
# new clicks, new changes of users, restarted before
STEP = st.tuples(st.integers(1, 6), st.integers(0, 5), st.booleans())


@few
@given(
    dice=st.randoms(use_true_random=False),
    steps=st.lists(STEP, min_size=2, max_size=3),
)
def test_stream_equals_batch_equals_oracle(spark, jobs, dice, steps):
    table = jobs.tables[TableName.parse("gold.clicks_enriched")]
    schemas = {name: TABLES[name] for name in (CLICKS, USERS)}
    clicks = web.silver_clicks(samples.sent(samples.clicks(dice, 18)))
    changes = samples.sent(samples.user_changes(dice, 15))
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, schemas, changing=[USERS])
        state, clicked, changed = [], 0, 0
        for more_clicks, more_changes, restart in steps:
            if restart:
                kit.restart()
            kit.feed(clicks[clicked : clicked + more_clicks], CLICKS)
            clicked, changed = clicked + more_clicks, changed + more_changes
            after = web.users_history(changes[:changed])
            become(kit, USERS, state, after)
            state = after
        agree(kit, web.clicks_enriched(clicks[:clicked], state))
