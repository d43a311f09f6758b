"""What the demo sends leaves something in every table that looks for the unusual."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from spark_jobs.demo.cards import cards as card_traffic
from spark_jobs.demo.event import Clock, Event
from spark_jobs.demo.hosts import BEACONS, connections
from spark_jobs.demo.hotel import hotel_events
from spark_jobs.demo.machines import machine_readings
from spark_jobs.demo.requests import app_requests
from spark_jobs.demo.songs import song_plays
from tests.oracles import Row, apps, cards, hosts, hotel, machines, music, samples

FAR = samples.START.replace(year=2100)
Source = Callable[[random.Random, Clock], Iterator[Event]]


def five_minutes(source: Source, rate: float, seed: int = 7) -> list[Event]:
    """What a source sends in five minutes at so many rows a second."""
    ticks = iter(range(10**9))
    events = source(random.Random(seed), lambda: samples.START + next(ticks) / rate * SECOND)
    return list(islice(events, int(300 * rate)))


SECOND = dt.timedelta(seconds=1)


def rows(events: list[Event], stream: str) -> list[Row]:
    return samples.sent([event.row for event in events if event.stream == stream])


@pytest.mark.parametrize("rate", [6, 60])
def test_machines_alarm_and_those_that_were_offline_tell_it_later(rate):
    events = five_minutes(machine_readings, rate)
    readings = machines.silver_machine_readings(rows(events, "machine_readings"))
    alarms = machines.machine_alerts(machines.machine_steps(readings, FAR), FAR)
    assert {row["machine_id"] for row in alarms}
    assert len({row["machine_id"] for row in alarms}) < 12, "most machines are well"
    newest, held = samples.START, 0
    for event in events:
        held += newest - event.at > 5 * SECOND
        newest = max(newest, event.at)
    assert 0 < held < len(events) / 10


def test_cards_are_stolen_and_what_became_of_payments_is_told():
    events = five_minutes(card_traffic, 4)
    paid = cards.silver_card_payments(rows(events, "card_payments"))
    told = cards.silver_payment_outcomes(rows(events, "payment_outcomes"))
    always = samples.START.replace(year=2000)
    rules = [{"card_kind": kind, "max_payments": 4, "max_kmh": 900, "max_amount": 2000,
              "valid_from": always, "valid_to": None}
             for kind in ("debit", "credit", "prepaid")]  # fmt: skip
    decided = cards.card_fraud(cards.card_velocity(paid, FAR), rules)
    decisions = Counter(row["decision"] for row in decided)
    assert 0.001 < decisions["deny"] / len(decided) < 0.1
    verdicts = Counter(row["verdict"] for row in cards.fraud_review(decided, told))
    assert verdicts["missed"]
    assert verdicts["right"]
    assert not verdicts["unknown"], "nothing is reported before it is paid"


@pytest.mark.parametrize("rate", [6, 60])
def test_hosts_that_were_taken_over_are_found_and_no_others(rate):
    met = hosts.silver_connections(rows(five_minutes(connections, rate), "connections"))
    found = hosts.host_beacons(met, FAR)
    assert {(row["host"], row["address"]) for row in found} == {
        (host, address) for host, (address, _) in BEACONS.items()
    }


def test_guests_come_stay_and_leave_in_that_order():
    order: dict[str, list[str]] = {}
    events = five_minutes(hotel_events, 2)
    for event in events:
        if event.row["event"] not in ("minibar", "complaint"):
            order.setdefault(event.row["stay_id"], []).append(event.row["event"])
    whole = ["reservation", "confirmation", "check_in", "check_out"]
    assert all(steps == whole[: len(steps)] for steps in order.values())
    journeys = hotel.guest_journey(hotel.silver_hotel_events(rows(events, "hotel_events")), [])
    assert {row["state"] for row in journeys} == {"reserved", "confirmed", "in_house", "left"}
    assert max(row["past_visits"] for row in journeys) > 0


def test_a_busy_service_is_slow():
    asked = apps.silver_app_requests(rows(five_minutes(app_requests, 30), "app_requests"))
    minutes = [row for row in apps.request_minutes(asked, FAR) if row["service"] == "web"]
    quiet, busy = sorted(minutes, key=lambda row: row["requests"])[:: len(minutes) - 1]
    assert busy["p99_ms"] > 1.5 * quiet["p99_ms"]


def test_few_songs_are_played_most():
    plays = music.silver_song_plays(rows(five_minutes(song_plays, 20), "song_plays"))
    counts = Counter(row["song_id"] for row in plays).most_common()
    assert len(counts) > 50
    assert sum(times for _, times in counts[:10]) > len(plays) / 2
