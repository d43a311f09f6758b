"""Tables that decode a stream, in any batching, with copies and bad rows, are what they should."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Json
from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import (
    Row,
    apps,
    captured,
    cards,
    hosts,
    hotel,
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
from tests.oracles.plans import agree, few
from tests.oracles.wire import avro_bytes, json_bytes

pytestmark = pytest.mark.spark

CASES: dict[str, tuple[Callable, Callable]] = {
    "trades": (samples.trades, markets.silver_trades),
    "song_plays": (lambda dice, count: more.song_plays(dice, count, 500), music.silver_song_plays),
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
TAKEN_IN = samples.START + dt.timedelta(minutes=10)  # after every event time of the samples
GARBAGE = b"\x07 nothing that anybody wrote"


@st.composite
def arrivals(draw: Any) -> tuple[random.Random, list[tuple[int, dt.datetime, bool]]]:
    """Batches as (how many rows of twelve, with copies, when taken in, restarted before)."""
    dice = draw(st.randoms(use_true_random=False))
    at, batches = TAKEN_IN, []
    for _ in range(draw(st.integers(2, 4))):
        at += dt.timedelta(minutes=draw(st.sampled_from((0, 1, 60, 61))))
        batches.append((draw(st.integers(0, 8)), at, draw(st.booleans())))
    return dice, batches


def encoded(stream: Any, row: Row) -> bytes:
    fields = {name: value for name, value in row.items() if name != "event_time"}
    if isinstance(stream.contract.format, Json):
        return json_bytes(fields)
    return avro_bytes(fields, dict(stream.contract.schema))


@pytest.mark.parametrize("name", CASES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name):
    make, oracle = CASES[name]
    table = jobs.tables[TableName.parse(f"silver.{name}")]
    stream = jobs.streams[TableName.parse(f"bronze.{name}")]

    @few
    @given(arriving=arrivals())
    def holds(arriving) -> None:
        dice, batches = arriving
        known, taken, offset, bad = make(dice, 12), [], 0, 0
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, stream=stream)
            for count, at, restart in batches:
                if restart:
                    kit.restart()
                rows = [dice.choice([*known, None]) for _ in range(count)]  # None: a bad one
                kit.feed([GARBAGE if r is None else encoded(stream, r) for r in rows], at=at)
                for number, row in enumerate(rows, offset):
                    place = {"_partition": 0, "_offset": number, "_ingested_at": at}
                    if row is not None:
                        taken.append({**row, "event_time": at, **place})
                offset += count
                bad += rows.count(None)
            agree(kit, oracle(taken))
            assert len(kit.quarantined()) == bad

    holds()


def test_a_silver_table_is_among_the_cases_or_has_a_test_of_its_own(jobs):
    decoding = {name for name, table in jobs.tables.items() if jobs.stream_of(table)}
    assert {name.name for name in decoding} == {*CASES, *captured.SOURCES, "users"}
