"""Demo traffic: repeatable, plausible, and wrong in just the ways it says."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise, takewhile
from unittest.mock import create_autospec

import fastavro
import pytest

import spark_jobs.demo.__main__ as demo
from penstock.clients import StreamProducer
from spark_jobs.demo.event import Event, Shares
from spark_jobs.demo.sources import SOURCES, STREAMS, merged

START = dt.datetime(2026, 11, 1, 9, 30, tzinfo=dt.UTC)
CLEAN = Shares(0, 0, 0)
SECOND = dt.timedelta(seconds=1)


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
    assert sent["clicks"] + sent["searches"] == pytest.approx(600, abs=2)
    assert sent["app_logs"] == pytest.approx(600, abs=2)
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


def test_hundreds_of_stocks_trade_and_few_of_them_most():
    sent = Counter(event.row["ticker"] for event in run(("trades",), 20_000))
    assert len(sent) > 300
    busiest = sent.most_common(20)
    assert 0.4 < sum(times for _, times in busiest) / 20_000 < 0.7


def test_who_searches_clicks_a_result_soon_after_and_often_within_a_second():
    asked, clicked = {}, Counter()
    for event in run(("clicks", "searches"), 8000):
        if event.stream == "searches":
            asked[event.row["user_id"]] = event
        elif before := asked.get(event.row["user_id"]):
            near = event.at - before.at <= dt.timedelta(seconds=1)
            clicked[before.row["query"].lower().strip()] += near
    assert len(clicked) > 5
    assert clicked.most_common(1)[0][0] == "running shoes"
    ways = {e.row["query"] for e in run(("searches",), 500)}
    assert {"running shoes", "Running Shoes", " running shoes", "running  shoes"} <= ways


def test_at_a_slow_pace_a_result_is_still_clicked_when_it_was():
    """Rows are sent seconds apart then, but a click keeps its own moment."""
    times = iter(range(10**6))
    slow = merged(("clicks", "searches"), 20, 7, CLEAN, lambda: START + 5 * next(times) * SECOND)
    events = [event for _, event in islice(slow, 400)]
    near = 0
    for before, event in pairwise(events):
        if before.stream == "searches" and event.stream == "clicks":
            near += dt.timedelta() < event.at - before.at <= SECOND
    assert near > 40


def test_services_log_errors_seldom_but_in_bursts():
    levels = [event.row["level"] for event in run(("app_logs",), 20_000)]
    assert 0.01 < levels.count("ERROR") / len(levels) < 0.1
    hundreds = [levels[n : n + 100].count("ERROR") for n in range(0, len(levels), 100)]
    assert max(hundreds) > 3 * sum(hundreds) / len(hundreds)


def test_every_stream_has_one_source():
    assert len(STREAMS) == len(set(STREAMS)) == sum(len(source.flaws) for source in SOURCES)


@pytest.mark.parametrize(("ago", "told"), [(0.0, False), (0.2, False), (0.5, True), (60.0, True)])
def test_a_record_of_another_time_says_when_it_was_sent(monkeypatch, ago, told):
    monkeypatch.setattr(demo, "wall_clock", lambda: START)
    producer = create_autospec(StreamProducer, instance=True)
    event = Event("readings", "s-1", START - dt.timedelta(seconds=ago), None, b"raw")
    demo._send(producer, event)
    headers = [("sent", START.isoformat().encode())] if told else []
    producer.send_raw.assert_called_once_with(b"s-1", b"raw", at=event.at, headers=headers)
