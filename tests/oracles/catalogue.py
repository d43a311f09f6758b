"""Rows that songs, regions, machines, cards, hosts, guests and services may well have left."""

from __future__ import annotations

import datetime as dt
import random

from tests.oracles import (
    Row,
    apps,
    captured,
    cards,
    hosts,
    hotel,
    logs,
    machines,
    music,
    regions,
    samples,
    trucks,
)
from tests.oracles import catalogue_samples as more

__all__ = ["catalogue_rows"]

_LATE = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
_Tables = dict[str, list[Row]]


def catalogue_rows() -> _Tables:
    """One world, from streams to the tables on top of them."""
    dice = random.Random(3)
    return {
        **_music(dice),
        **_logistics(dice),
        **_plant(dice),
        **_payments(dice),
        **_hotel(dice),
        **_platform(dice),
    }


def _versions(dice: random.Random, table: str) -> list[Row]:
    return captured.versions(table, samples.sent(captured.changes(table)(dice, 20)))


def _music(dice: random.Random) -> _Tables:
    plays = music.silver_song_plays(samples.sent(more.song_plays(dice, 200, 86_400)))
    minutes = music.song_minutes(plays, _LATE)
    hours = music.song_hours(minutes, _LATE)
    days = music.song_days(hours, _LATE)
    return {
        "silver.song_plays": plays,
        "gold.song_minutes": minutes,
        "gold.song_hours": hours,
        "gold.song_days": days,
        "gold.top_songs": music.top_songs(minutes, hours, days),
    }


def _logistics(dice: random.Random) -> _Tables:
    seen = trucks.silver_truck_positions(samples.sent(samples.truck_positions(dice, 60)))
    known = _versions(dice, "regions")
    minutes = regions.region_minutes(seen, _LATE)
    days = regions.region_day(minutes, _LATE)
    return {
        "silver.regions": known,
        "gold.truck_last_seen": regions.truck_last_seen(seen),
        "gold.region_minutes": minutes,
        "gold.region_day": days,
        "gold.region_rolling": regions.region_rolling(days, known),
    }


def _plant(dice: random.Random) -> _Tables:
    readings = machines.silver_machine_readings(samples.sent(more.machine_readings(dice, 400)))
    steps = machines.machine_steps(readings, _LATE)
    return {
        "silver.machine_readings": readings,
        "gold.machine_steps": steps,
        "gold.machine_alerts": machines.machine_alerts(steps, _LATE),
    }


def _payments(dice: random.Random) -> _Tables:
    paid = cards.silver_card_payments(samples.sent(more.card_payments(dice, 80)))
    told = cards.silver_payment_outcomes(samples.sent(more.payment_outcomes(dice, 40)))
    rules = _versions(dice, "fraud_rules")
    velocity = cards.card_velocity(paid, _LATE)
    decided = cards.card_fraud(velocity, rules)
    met = hosts.silver_connections(samples.sent(more.connections(dice, 80)))
    return {
        "silver.card_payments": paid,
        "silver.payment_outcomes": told,
        "silver.fraud_rules": rules,
        "gold.card_velocity": velocity,
        "gold.card_fraud": decided,
        "gold.fraud_review": cards.fraud_review(decided, told),
        "silver.connections": met,
        "gold.host_beacons": hosts.host_beacons(met, _LATE),
    }


def _hotel(dice: random.Random) -> _Tables:
    events = hotel.silver_hotel_events(samples.sent(more.hotel_events(dice, 60)))
    loyalty = _versions(dice, "loyalty")
    return {
        "silver.hotel_events": events,
        "silver.loyalty": loyalty,
        "gold.guest_journey": hotel.guest_journey(events, loyalty),
    }


def _platform(dice: random.Random) -> _Tables:
    asked = apps.silver_app_requests(samples.sent(more.app_requests(dice, 80)))
    said = logs.silver_app_logs(samples.sent(samples.app_logs(dice, 60)))
    minutes, lines = apps.request_minutes(asked, _LATE), apps.log_minutes(said, _LATE)
    return {
        "silver.app_requests": asked,
        "gold.request_minutes": minutes,
        "gold.log_minutes": lines,
        "gold.app_metrics": apps.app_metrics(minutes, lines),
    }
