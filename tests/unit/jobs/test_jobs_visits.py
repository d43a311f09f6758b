"""Searches, activity and counts of clicks as a plain batch."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from tests.oracles import Row, in_order, samples, visits, web
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark

FAR = samples.START.replace(year=2100)


def seen(dice: random.Random) -> tuple[list[Row], list[Row], list[Row]]:
    clicks = web.silver_clicks(samples.sent(samples.clicks(dice, 60)))
    searches = visits.silver_searches(samples.sent(samples.searches(dice, 60)))
    return clicks, searches, web.users_history(samples.sent(samples.user_changes(dice, 25)))


def right(out, table: str, told: list[Row]) -> None:
    found = out.toArrow()
    assert types(found.schema) == types(TABLES[table])
    assert in_order(found.to_pylist()) == in_order(told)


def test_clicks_with_search(table, frame, dice):
    clicks, searches, _ = seen(dice)
    left, other = frame(clicks, "silver.clicks"), frame(searches, "silver.searches")
    matches = other.select(F.struct(*other.columns).alias("searches"))
    apart = F.unix_micros("clicked_at") - F.unix_micros("searches.searched_at")
    near = (left["user_id"] == F.col("searches.user_id")) & apart.between(0, 1_000_000)
    told = visits.clicks_with_search(clicks, searches, FAR)
    assert {row["search_id"] is None for row in told} == {True, False}
    out = table("gold.clicks_with_search")(left.join(matches, near, "left"))
    right(out, "gold.clicks_with_search", told)


def test_user_activity(table, frame, dice):
    clicks, searches, users = seen(dice)
    views = visits.clicks_with_search(clicks, searches, FAR)
    facts, profiles = frame(views, "gold.clicks_with_search"), frame(users, "silver.users")
    versions = profiles.select(F.struct(*profiles.columns).alias("users"))
    at = facts["clicked_at"]
    valid = (
        (facts["user_id"] == F.col("users.user_id"))
        & (at >= F.col("users.valid_from"))
        & (F.col("users.valid_to").isNull() | (at < F.col("users.valid_to")))
    )
    out = table("gold.user_activity")(facts.join(versions, valid, "left"))
    right(out, "gold.user_activity", visits.user_activity(views, users))


def test_counts(table, frame, dice):
    """What each click adds; the engine's totals are sums of these."""
    clicks, searches, users = seen(dice)
    enriched = web.clicks_enriched(clicks, users)
    views = visits.clicks_with_search(clicks, searches, FAR)
    for name, given, source, told in (
        ("gold.page_stats", clicks, "silver.clicks", visits.page_stats(clicks)),
        ("gold.zip_stats", enriched, "gold.clicks_enriched", visits.zip_stats(enriched)),
        ("gold.result_clicks", views, "gold.clicks_with_search", visits.result_clicks(views)),
    ):
        added = table(name)(frame(given, source))
        by = table(name).kind.by
        sums = [F.sum(column).alias(column) for column in added.columns if column not in by]
        right(added.groupBy(*by).agg(*sums), name, told)
    assert sum(row["clicks"] for row in visits.zip_stats(enriched)) == len(clicks)
    results = visits.result_clicks(views)
    out = table("gold.query_top_results")(frame(results, "gold.result_clicks"))
    right(out, "gold.query_top_results", visits.query_top_results(results))


def test_of_results_with_as_many_clicks_the_first_in_the_alphabet(table, frame):
    clicks = {"/b": 3, "/a": 3, "/c": 2}
    rows = [{"query": "sale", "page": page, "clicks": n} for page, n in clicks.items()]
    out = table("gold.query_top_results")(frame(rows, "gold.result_clicks")).toArrow().to_pylist()
    assert out == [{"query": "sale", "page": "/a", "clicks": 3, "all_clicks": 8}]


def test_a_query_has_one_spelling(table, frame):
    typed = ["Winter Boots", "  winter\t boots ", "WINTER BOOTS", "winterboots"]
    rows = samples.sent(
        [
            {"search_id": f"q-{n}", "user_id": 1, "query": q, "searched_at": samples.START}
            for n, q in enumerate(typed)
        ]
    )
    out = table("silver.searches")(frame(rows, "searches")).toArrow()
    assert out["query"].to_pylist() == ["winter boots"] * 3 + ["winterboots"]
