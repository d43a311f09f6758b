"""gold.user_activity: views, searches and profiles in one record, whichever of them comes late."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import samples, visits, web
from tests.oracles.plans import STEPS, TRIES, agree, evolve, tried
from tests.oracles.shapes import TABLES
from tests.parity.test_clicks_with_search import clicked, searched

pytestmark = pytest.mark.spark

VIEWS, USERS = "gold.clicks_with_search", "silver.users"
FAR = samples.START.replace(year=2100)


@pytest.mark.parametrize("tries", TRIES)
def test_stream_equals_batch_equals_oracle(spark, jobs, tries):
    table = jobs.tables[TableName.parse("gold.user_activity")]
    schemas = {name: TABLES[name] for name in (VIEWS, USERS)}

    @tried(tries)
    @given(dice=st.randoms(use_true_random=False), steps=STEPS)
    def holds(dice: random.Random, steps: list[tuple[int, bool]]) -> None:
        clicks, searches = clicked(dice, 24), searched(dice, 40)
        changes = samples.sent(samples.user_changes(dice, 24))
        states, there = [], 0
        for more, restart in steps:
            there += more
            views = visits.clicks_with_search(clicks[:there], searches[: 2 * there], FAR)
            users = web.users_history(changes[: there + dice.randrange(3)])
            states.append(({VIEWS: views, USERS: users}, restart))
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, schemas, changing=[VIEWS, USERS])
            evolve(kit, states)
            agree(kit, visits.user_activity(views, users))

    holds()
