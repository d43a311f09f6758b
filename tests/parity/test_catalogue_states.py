"""Tables over tables that change: rankings, last sightings, decisions, reviews, guests, services.

Inputs go from one state to the next, as upserting tables do, in any steps, restarted between some.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, apps, captured, cards, hotel, in_order, music, regions, samples
from tests.oracles import catalogue_samples as more
from tests.oracles.plans import STEPS, TRIES, agree, evolve, tried
from tests.oracles.shapes import TABLES
from tests.parity.test_catalogue_windows import (
    FAR,
    logged,
    paid,
    plays,
    region_minutes,
    requested,
    sightings,
)

pytestmark = pytest.mark.spark

DAY = 24 * 3600
State = Mapping[str, list[Row]]
Grow = Callable[[int], State]  # the inputs after so many steps


def versions(dice: random.Random, table: str) -> Callable[[int], list[Row]]:
    told = samples.sent(captured.changes(table)(dice, 24))
    return lambda there: captured.versions(table, told[:there])


def songs_grow(dice: random.Random) -> Grow:
    """Some over three months, as many in the last day and the last minutes."""
    heard = [row for days in (90, 1, 0.005) for row in plays(dice, 10, days * DAY)]
    dice.shuffle(heard)

    def state(there: int) -> State:
        minutes = music.song_minutes(heard[: 2 * there], FAR)
        hours = music.song_hours(minutes, FAR)
        return {
            "gold.song_minutes": minutes,
            "gold.song_hours": hours,
            "gold.song_days": music.song_days(hours, FAR),
        }

    return state


def hours_grow(dice: random.Random) -> Grow:
    """As time goes by: hours fill and become final, days after them."""
    heard = sorted(plays(dice, 24, 3 * DAY), key=lambda row: row["played_at"])

    def state(there: int) -> State:
        minutes = music.song_minutes(heard[:there], FAR)
        newest = max(row["window_start"] for row in minutes)
        return {"gold.song_hours": music.song_hours(minutes, newest)}

    return state


def sightings_grow(dice: random.Random) -> Grow:
    seen = sightings(dice, 24)
    return lambda there: {"silver.truck_positions": seen[:there]}


def regions_grow(dice: random.Random) -> Grow:
    seen, known = region_minutes(dice, 24), versions(dice, "regions")
    return lambda there: {
        "gold.region_day": regions.region_day(seen[:there], FAR),
        "silver.regions": known(there),
    }


def payments_grow(dice: random.Random) -> Grow:
    asked, rules = paid(dice, 24), versions(dice, "fraud_rules")
    return lambda there: {
        "gold.card_velocity": cards.card_velocity(asked[:there], FAR),
        "silver.fraud_rules": rules(there),
    }


def reviews_grow(dice: random.Random) -> Grow:
    decided, told = payments_grow(dice), samples.sent(more.payment_outcomes(dice, 12))
    return lambda there: {
        "gold.card_fraud": cards.card_fraud(*decided(there).values()),
        "silver.payment_outcomes": cards.silver_payment_outcomes(told[: there // 2]),
    }


def guests_grow(dice: random.Random) -> Grow:
    events, loyalty = samples.sent(more.hotel_events(dice, 24)), versions(dice, "loyalty")
    return lambda there: {
        "silver.hotel_events": hotel.silver_hotel_events(events[:there]),
        "silver.loyalty": loyalty(there),
    }


def services_grow(dice: random.Random) -> Grow:
    asked, said = requested(dice, 24), logged(dice, 24)
    return lambda there: {
        "gold.request_minutes": apps.request_minutes(asked[:there], FAR),
        "gold.log_minutes": apps.log_minutes(said[:there], FAR),
    }


def days_so_far(hours: list[Row]) -> list[Row]:
    return music.song_days(hours, max(row["window_start"] for row in hours))


GROWS = {"silver.truck_positions", "silver.payment_outcomes", "silver.hotel_events"}
# table -> how its inputs grow, and what it holds of them, in the order in which it reads them
CASES: dict[str, tuple[Callable[[random.Random], Grow], Callable[..., list[Row]]]] = {
    "gold.song_days": (hours_grow, days_so_far),
    "gold.top_songs": (songs_grow, music.top_songs),
    "gold.truck_last_seen": (sightings_grow, regions.truck_last_seen),
    "gold.region_rolling": (regions_grow, regions.region_rolling),
    "gold.card_fraud": (payments_grow, cards.card_fraud),
    "gold.fraud_review": (reviews_grow, cards.fraud_review),
    "gold.guest_journey": (guests_grow, hotel.guest_journey),
    "gold.app_metrics": (services_grow, apps.app_metrics),
}


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", CASES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table = jobs.tables[TableName.parse(name)]
    grow, oracle = CASES[name]

    @tried(tries)
    @given(dice=st.randoms(use_true_random=False), steps=STEPS)
    def holds(dice: random.Random, steps: list[tuple[int, bool]]) -> None:
        after, states, there = grow(dice), [], 0
        for more_rows, restart in steps:
            there += more_rows
            states.append((after(there), restart))
        final = after(there)
        schemas = {source: TABLES[source] for source in final}
        changing = [source for source in final if source not in GROWS]
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, schemas, changing=changing)
            evolve(kit, states)
            agree(kit, oracle(*final.values()))

    holds()


def test_the_last_five_minutes_end_with_the_newest_minute_that_anybody_heard_a_song_in():
    at = samples.START.replace(hour=10, minute=2)

    def heard(song: str, minute: int) -> Row:
        return {"song_id": song, "played_at": at.replace(minute=minute)}

    plays = [heard("s1", 2), heard("s1", 3), heard("s2", 8), heard("s3", 8), heard("s3", 9)]
    listed = music.top_songs(music.song_minutes(plays, FAR), [], [])
    told = [(row["frame"].minute, row["until"].minute, row["song_id"], row["plays"])
            for row in in_order(listed)]  # fmt: skip
    # at 10:04 nothing but s1 was heard; at 10:10, since 10:05, s3 twice and s2 once
    assert told == [(0, 4, "s1", 2), (5, 10, "s3", 2), (5, 10, "s2", 1)]
    plays = [heard("s1", 4), heard("s2", 5)]
    listed = music.top_songs(music.song_minutes(plays, FAR), [], [])
    newest = [row["song_id"] for row in in_order(listed) if row["frame"].minute == 5]
    assert newest == ["s1", "s2"], "a new frame looks back into the one before"
