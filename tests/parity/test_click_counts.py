"""Counts of clicks, by page, zip code and query: right also when what they count is revised."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, samples, visits, web
from tests.oracles.plans import STEPS, TRIES, agree, evolve, tried
from tests.oracles.shapes import TABLES
from tests.parity.test_clicks_with_search import clicked, searched

pytestmark = pytest.mark.spark

FAR = samples.START.replace(year=2100)
Grow = Callable[[int], list[Row]]  # an input after so many steps


def clicks_grow(dice: random.Random) -> Grow:
    clicks = clicked(dice, 24)
    return lambda there: clicks[:there]


def enriched_grow(dice: random.Random) -> Grow:
    clicks, changes = clicked(dice, 24), samples.sent(samples.user_changes(dice, 24))
    return lambda there: web.clicks_enriched(clicks[:there], web.users_history(changes[:there]))


def views_grow(dice: random.Random) -> Grow:
    clicks, searches = clicked(dice, 60), searched(dice, 60)
    return lambda there: visits.clicks_with_search(clicks[: 2 * there], searches[: 2 * there], FAR)


def results_grow(dice: random.Random) -> Grow:
    views = views_grow(dice)
    return lambda there: visits.result_clicks(views(there))


# table -> what it reads, whether that changes, how it grows, what is counted
CASES = {
    "gold.page_stats": ("silver.clicks", False, clicks_grow, visits.page_stats),
    "gold.zip_stats": ("gold.clicks_enriched", True, enriched_grow, visits.zip_stats),
    "gold.result_clicks": ("gold.clicks_with_search", True, views_grow, visits.result_clicks),
    "gold.query_top_results": ("gold.result_clicks", True, results_grow, visits.query_top_results),
}


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", CASES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table = jobs.tables[TableName.parse(name)]
    source, changes, grow, oracle = CASES[name]

    @tried(tries)
    @given(dice=st.randoms(use_true_random=False), steps=STEPS)
    def holds(dice: random.Random, steps: list[tuple[int, bool]]) -> None:
        after, states, there = grow(dice), [], 0
        for more, restart in steps:
            there += more
            states.append(({source: after(there)}, restart))
        changing = [source] if changes else []
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, {source: TABLES[source]}, changing=changing)
            evolve(kit, states)
            agree(kit, oracle(after(there)))

    holds()
