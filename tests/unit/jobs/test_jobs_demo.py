"""Demo traffic: repeatable, plausible, and wrong in just the ways it says."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from itertools import islice, takewhile

import fastavro
import pytest

from spark_jobs.demo.event import Event, Shares
from spark_jobs.demo.sources import SOURCES, STREAMS, merged

START = dt.datetime(2026, 11, 1, 9, 30, tzinfo=dt.UTC)
CLEAN = Shares(0, 0, 0)


def ticking() -> Callable[[], dt.datetime]:
    ticks = iter(range(10**9))
    return lambda: START + dt.timedelta(milliseconds=next(ticks))


def run(streams=STREAMS, count=2000, shares=CLEAN, seed=7) -> list[Event]:
    return [event for _, event in islice(merged(streams, 20, seed, shares, ticking()), count)]


def broken_rule(stream, row: dict, at: dt.datetime, now: dt.datetime) -> str | None:
    """The first rule of the contract that a row breaks."""
    for rule in stream.contract.rules:
        if rule.name == "plausible_time":
            if not now - rule.past_delta <= at <= now + rule.future_delta:
                return rule.name
        elif row[rule.column] is not None and not rule.holds(row[rule.column]):
            return rule.name
    return None


def test_the_same_seed_gives_the_same_rows():
    shares = Shares(0.1, 0.1, 0.1)
    assert run(shares=shares) == run(shares=shares)
    assert run(shares=shares) != run(shares=shares, seed=8)


def test_paces():
    due = takewhile(lambda pair: pair[0] < 100, merged(STREAMS, 20, 7, CLEAN, ticking()))
    sent = Counter(event.stream for _, event in due)
    assert sent["trades"] == pytest.approx(2000, abs=2)
    assert sent["readings"] == pytest.approx(1000, abs=2)
    assert sent["sales"] + sent["shipments"] + sent["returns"] == pytest.approx(200, abs=2)


def test_only_what_was_asked_for():
    assert {event.stream for event in run(("returns", "clicks"), 300)} == {"returns", "clicks"}


@pytest.mark.parametrize("stream", STREAMS)
def test_clean_rows_keep_the_contract_and_can_be_written(jobs, stream):
    declared = next(s for s in jobs.streams.values() if s.name.name == stream)
    schema = fastavro.parse_schema(dict(declared.contract.schema))
    for event in run((stream,), 200):
        assert fastavro.validate(event.row, schema, strict=True)
        assert broken_rule(declared, event.row, event.at, event.at) is None
        if declared.event_time_field:
            assert event.row[declared.event_time_field] == event.at


@pytest.mark.parametrize("stream", STREAMS)
def test_bad_rows_break_it(jobs, stream):
    declared = next(s for s in jobs.streams.values() if s.name.name == stream)
    schema = fastavro.parse_schema(dict(declared.contract.schema))
    clean, told = run((stream,), 100), run((stream,), 200, Shares(0, 0, 1))
    bad = told[::2]
    assert {event.raw is not None for event in bad} == {True, False}
    for event, good in zip(bad, told[1::2], strict=True):
        if event.row is not None:
            assert fastavro.validate(event.row, schema, strict=True), "bad, but to be written"
            assert broken_rule(declared, event.row, event.at, good.at), event
    # dice fall differently, but the rows between the bad ones are sound
    assert len(told[1::2]) == len(clean)
    for event in told[1::2]:
        assert broken_rule(declared, event.row, event.at, event.at) is None


def test_late_rows_move_the_time_inside_too():
    for event in run(("readings",), 300, Shares(1, 0, 0)):
        assert event.row["measured_at"] == event.at
    apart = [event.at for event in run(("readings",), 300, Shares(0.5, 0, 0))]
    assert apart != sorted(apart)


def test_copies_are_copies_and_trades_have_none():
    names = Counter(event.row["click_id"] for event in run(("clicks",), 500, Shares(0, 0.2, 0)))
    assert 50 < sum(times - 1 for times in names.values()) < 150
    moments = [event.at for event in run(("trades",), 300, Shares(0, 1, 0))]
    assert len(moments) == len(set(moments)), "nothing tells a trade from its copy"


def test_the_shop_never_sells_what_it_has_not_nor_takes_back_what_it_did_not_sell():
    stock, sold = Counter(), {}
    for event in run(("shipments", "sales", "returns"), 3000):
        row = event.row
        shoe, pairs = (row["model"], row["size"]), row["quantity"]
        if event.stream == "sales":
            stock[shoe] -= pairs
            sold[row["sale_id"]] = (shoe, pairs)
        else:
            stock[shoe] += pairs
        if event.stream == "returns":
            bought, most = sold.pop(row["sale_id"])
            assert (bought, True) == (shoe, pairs <= most)
        assert stock[shoe] >= 0
    assert {event.stream for event in run(("shipments", "sales", "returns"), 300)} == {
        "shipments",
        "sales",
        "returns",
    }


def test_trucks_cross_regions_and_clicks_come_from_known_unknown_and_nobody():
    seen = {}
    for event in run(("truck_positions",), 1000):
        seen.setdefault(event.row["truck_id"], set()).add(event.row["region"])
    assert max(map(len, seen.values())) > 2
    users = {event.row["user_id"] for event in run(("clicks",), 500)}
    assert {1, 2, 3, 4, 5, None} < users
    assert users - {1, 2, 3, 4, 5, None}


def test_every_stream_has_one_source():
    assert len(STREAMS) == len(set(STREAMS)) == sum(len(source.flaws) for source in SOURCES)
