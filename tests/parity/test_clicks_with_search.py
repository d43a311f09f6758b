"""gold.clicks_with_search: each click with the search that led to it, in any order of arrival."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, in_order, samples, visits, web
from tests.oracles.plans import TRIES, Plan, agree, plans, tried
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

CLICKS, SEARCHES = "silver.clicks", "silver.searches"
SCHEMAS = {name: TABLES[name] for name in (CLICKS, SEARCHES)}
START = samples.START
LATENESS = dt.timedelta(seconds=5)


@pytest.fixture
def table(jobs):
    return jobs.tables[TableName.parse("gold.clicks_with_search")]


def clicked(dice: random.Random, count: int) -> list[Row]:
    return web.silver_clicks(samples.sent(samples.clicks(dice, count)))


def searched(dice: random.Random, count: int) -> list[Row]:
    return visits.silver_searches(samples.sent(samples.searches(dice, count)))


def click(seconds: float, name: str = "c-1", user: int | None = 1) -> Row:
    at = START + dt.timedelta(seconds=seconds)
    row = {"click_id": name, "user_id": user, "page": "/", "clicked_at": at}
    return {**row, "partition": 0, "offset": 0}


def search(seconds: float, name: str, user: int | None = 1) -> Row:
    at = START + dt.timedelta(seconds=seconds)
    row = {"search_id": name, "user_id": user, "query": name, "searched_at": at}
    return {**row, "partition": 0, "offset": 0}


def watermark(clicks: list[Row], searches: list[Row]) -> dt.datetime:
    newest = max(row["clicked_at"] for row in clicks), max(row["searched_at"] for row in searches)
    return min(newest) - LATENESS


@pytest.mark.parametrize("tries", TRIES)
def test_stream_equals_batch_equals_oracle(spark, table, tries):
    @tried(tries)
    @given(plan=plans({CLICKS: clicked, SEARCHES: searched}, most=40))
    def holds(plan: Plan) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, SCHEMAS)
            plan.carry_out(kit)
            clicks, searches = plan.fed(CLICKS), plan.fed(SEARCHES)
            told = visits.clicks_with_search(clicks, searches, watermark(clicks, searches))
            agree(kit, told)
            assert kit.late() == [], "for a minute whatever comes late counts at once"

    holds()


def test_the_newest_search_of_the_second_before_wins_and_of_equal_ones_the_greater_id(
    spark, table, tmp_path
):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    clicks = [
        click(10, "c-newest"),
        click(20, "c-tie"),
        click(30, "c-edge"),
        click(40, "c-too-late"),
        click(50, "c-before"),
        click(60, "c-other"),
        click(70, "c-nobody", None),
        click(80, "c-now"),
    ]
    searches = [
        search(9.2, "q-9"), search(9.8, "q-1"), search(10.1, "q-z"),
        search(19.5, "q-7"), search(19.5, "q-8"),
        search(29, "q-exactly"),
        search(38.999999, "q-too-old"),
        search(50.000001, "q-after"),
        search(59.5, "q-of-another", 2),
        search(69.5, "q-of-nobody", None),
        search(80, "q-same-moment"),
    ]  # fmt: skip
    kit.feed([*clicks, click(99, "c-end")], CLICKS)
    kit.feed([*searches, search(99, "q-end")], SEARCHES)
    assert {row["click_id"]: row["search_id"] for row in kit.rows()} == {
        "c-newest": "q-1",
        "c-tie": "q-8",
        "c-edge": "q-exactly",
        "c-too-late": None,
        "c-before": None,
        "c-other": None,
        "c-nobody": None,
        "c-now": "q-same-moment",
    }


def test_a_search_that_comes_very_late_counts_once_it_is_reconciled(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    first = [click(1), search(200, "q-end"), search(0.5, "q-late")]
    kit.feed([first[0], click(200, "c-end")], CLICKS)
    kit.feed([first[1]], SEARCHES)
    assert [row["search_id"] for row in kit.rows()] == [None]
    kit.feed([first[2]], SEARCHES)
    assert [row["search_id"] for row in kit.rows()] == [None]
    assert len(kit.late()) == 1
    kit.reconcile()
    told = visits.clicks_with_search(
        [first[0]], first[1:], START + dt.timedelta(seconds=200) - LATENESS
    )
    assert [row["search_id"] for row in told] == ["q-late"]
    assert in_order(kit.rows()) == in_order(told) == in_order(kit.batch_rows())
