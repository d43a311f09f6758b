"""Users' history and enriched clicks, as a plain batch."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import functions as F

from tests.oracles import in_order, samples, web
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark

PROFILE = ("name", "email", "country", "tier", "updated_at", "zip_code")


def replayed(changes: list[dict], until: dt.datetime) -> dict:
    """The source table at a moment: its changes carried out one by one. Names as the job's."""
    first = {}
    for row in sorted(changes, key=lambda r: (r["committed_at"], r["lsn"], r["offset"])):
        if not row["truncated"]:
            first.setdefault(row["user_id"], row)
    state = {}
    for row in sorted(changes, key=lambda r: (r["committed_at"], r["lsn"], r["offset"])):
        always = row["snapshot"] and first[row["user_id"]] is row
        if row["committed_at"] > until and not always:
            continue
        if row["truncated"]:
            state.clear()
        elif row["deleted"]:
            state.pop(row["user_id"], None)
        else:
            state[row["user_id"]] = {column: row[column] for column in PROFILE}
    return state


def test_users_history_is_the_source_at_every_moment(table, frame, dice):
    changes = samples.sent(samples.user_changes(dice, 40))
    mapped = table("silver.users")(frame(changes, "users")).toArrow().to_pylist()
    versions = web.users_history(changes)
    names = [(row["user_id"], row["valid_from"]) for row in versions]
    assert len(names) == len(set(names))
    for second in range(-5, 60):
        at = samples.START + dt.timedelta(seconds=second)
        valid = {
            row["user_id"]: {column: row[column] for column in PROFILE}
            for row in versions
            if row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"])
        }
        assert valid == replayed(mapped, at), second


def test_users_transform_takes_each_column_from_its_own(table, frame, dice):
    changes = samples.sent(samples.user_changes(dice, 30))
    meant = ("lsn", "offset", "committed_at", "deleted", "truncated", "snapshot")
    expected = [
        {"user_id": row["user_id"]}
        | {column: row[column] for column in PROFILE}
        | {column: row[f"_{column}"] for column in meant}
        for row in changes
    ]
    out = table("silver.users")(frame(changes, "users")).toArrow().to_pylist()
    assert sorted(out, key=lambda r: r["offset"]) == expected


def test_users_transform_has_the_columns_its_kind_names(table, frame, dice):
    users = table("silver.users")
    out = users(frame(samples.sent(samples.user_changes(dice, 5)), "users"))
    kind = users.kind
    assert {*kind.by, *kind.order, *kind.flags, kind.since} <= set(out.columns)
    kept = [c for c in out.columns if c not in {*kind.flags, kind.since}]
    assert [*kept, "valid_from", "valid_to"] == TABLES["silver.users"].names


def test_clicks_enriched(table, frame, dice):
    clicks = web.silver_clicks(samples.sent(samples.clicks(dice, 60)))
    users = web.users_history(samples.sent(samples.user_changes(dice, 25)))
    facts, dimension = frame(clicks, "silver.clicks"), frame(users, "silver.users")
    versions = dimension.select(F.struct(*dimension.columns).alias("users"))
    valid = (
        (F.col("users.user_id") == facts["user_id"])
        & (F.col("users.valid_from") <= facts["clicked_at"])
        & (F.col("users.valid_to").isNull() | (facts["clicked_at"] < F.col("users.valid_to")))
    )
    out = table("gold.clicks_enriched")(facts.join(versions, valid, "left")).toArrow()
    assert types(out.schema) == types(TABLES["gold.clicks_enriched"])
    expected = web.clicks_enriched(clicks, users)
    assert {row["known"] for row in expected} == {True, False}
    assert in_order(out.to_pylist()) == in_order(expected)
