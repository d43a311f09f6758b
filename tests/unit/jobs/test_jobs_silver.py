"""The transforms that decode streams, against their oracles."""

from __future__ import annotations

import random

import pytest

from tests.oracles import (
    apps,
    cards,
    hosts,
    hotel,
    in_order,
    logs,
    machines,
    markets,
    music,
    samples,
    sensors,
    shop,
    trucks,
    visits,
    web,
)  # fmt: skip
from tests.oracles import catalogue_samples as more
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark

CASES = {
    "trades": (samples.trades, markets.silver_trades),
    "song_plays": (more.song_plays, music.silver_song_plays),
    "machine_readings": (more.machine_readings, machines.silver_machine_readings),
    "card_payments": (more.card_payments, cards.silver_card_payments),
    "payment_outcomes": (more.payment_outcomes, cards.silver_payment_outcomes),
    "connections": (more.connections, hosts.silver_connections),
    "hotel_events": (more.hotel_events, hotel.silver_hotel_events),
    "app_requests": (more.app_requests, apps.silver_app_requests),
    "readings": (samples.readings, sensors.silver_readings),
    "shipments": (samples.shipments, shop.silver_shipments),
    "sales": (samples.sales, shop.silver_sales),
    "returns": (samples.returns, shop.silver_returns),
    "truck_positions": (samples.truck_positions, trucks.silver_truck_positions),
    "clicks": (samples.clicks, web.silver_clicks),
    "searches": (samples.searches, visits.silver_searches),
    "app_logs": (samples.app_logs, logs.silver_app_logs),
}


@pytest.mark.parametrize("name", CASES)
def test_transform_is_what_the_oracle_says(table, frame, dice, name):
    make, oracle = CASES[name]
    rows = samples.sent(make(dice, 60))
    out = table(f"silver.{name}")(frame(rows, name)).toArrow()
    assert types(out.schema) == types(TABLES[f"silver.{name}"])
    assert in_order(out.to_pylist()) == in_order(oracle(rows))


def test_readings_know_no_negative_nought(table, frame):
    rows = samples.sent(samples.readings(random.Random(3), 40))
    assert "-0.0" in {str(row["value"]) for row in rows}
    out = table("silver.readings")(frame(rows, "readings")).toArrow()
    assert "-0.0" not in {str(value) for value in out["value"].to_pylist()}
