"""The parts of an audit and of the slot watch that need no platform."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, ServiceFailed
from penstock.runtime.ingest.connectors import Reading, capture_of, captures
from penstock.runtime.ingest.slots import Finding, Look, SlotWatch, judge, lsn_number, lsn_text
from penstock.runtime.mend.audit_rows import Difference, Event, Snapshot, compare, rolled_forward

NOW = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


def row(number: int, **other) -> dict:
    plain = {"id": number, "name": "a", "amount": Decimal("1.50"), "ratio": 0.5, "at": NOW}
    return plain | other


def table(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


# --- which transactions a snapshot holds ------------------------------------------------------
@pytest.mark.parametrize(
    ("transaction", "held"),
    [(9, True), (10, False), (11, True), (12, False), (13, True), (14, False), (15, False)],
)
def test_a_snapshot_holds_what_was_over_when_it_was_taken(transaction, held):
    assert Snapshot.parse("10:14:10,12").holds(transaction) is held


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_transactions_are_numbered_in_32_bits_in_the_log(epoch):
    base = epoch << 32
    snapshot = Snapshot.parse(f"{base + 5}:{base + 9}:{base + 5}")
    assert [snapshot.holds(n) for n in (4, 5, 6, 8, 9)] == [True, False, True, True, False]
    if epoch:
        assert snapshot.holds(0xFFFFFFF0), "of the epoch before"
    late = Snapshot.parse(f"{base + 0xFFFFFFF0}:{base + 0xFFFFFFF5}:")
    assert not late.holds(3), "of the epoch after"


# --- rolling forward --------------------------------------------------------------------------
def test_changes_since_the_snapshot_are_applied_in_the_order_of_the_log():
    rows = table(row(1), row(2), row(3))
    events = [
        Event((20, 1), (1,), row(1, name="second")),
        Event((10, 9), (1,), row(1, name="first")),
        Event((11, 0), (2,), None),
        Event((30, 0), (4,), row(4)),
        Event((30, 1), (3,), None),
        Event((31, 0), (3,), row(3, name="again")),
    ]
    after, touched = rolled_forward(rows, events, ("id",))
    found = {r["id"]: r["name"] for r in after.to_pylist()}
    assert found == {1: "second", 3: "again", 4: "a"}
    assert touched == 4


def test_a_truncation_takes_all_that_was_before_it():
    events = [
        Event((10, 0), (4,), row(4)),
        Event((11, 0), None, None),
        Event((12, 0), (5,), row(5)),
    ]
    after, _ = rolled_forward(table(row(1), row(2)), events, ("id",))
    assert after.to_pylist() == [row(5)]
    assert rolled_forward(table(row(1)), [], ("id",)) == (table(row(1)), 0)


def test_a_value_the_table_cannot_hold_is_told():
    event = Event((1, 0), (1,), row(1, amount=Decimal("1.234567")))
    with pytest.raises(PenstockError, match="column amount"):
        rolled_forward(table(), [event], ("id",))


_ACTIONS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "clear"]), st.integers(0, 5), st.text(max_size=2)),
    max_size=30,
)


@given(before=st.sets(st.integers(0, 5)), actions=_ACTIONS, mixed=st.randoms())
def test_rolling_forward_equals_a_dict(before, actions, mixed):
    expected = {n: row(n) for n in before}
    events = []
    for position, (verb, number, name) in enumerate(actions):
        if verb == "clear":
            expected.clear()
            events.append(Event((position, 0), None, None))
        elif verb == "drop":
            expected.pop(number, None)
            events.append(Event((position, 0), (number,), None))
        else:
            expected[number] = row(number, name=name)
            events.append(Event((position, 0), (number,), expected[number]))
    mixed.shuffle(events)
    after, _ = rolled_forward(table(*(row(n) for n in before)), events, ("id",))
    assert {r["id"]: r for r in after.to_pylist()} == expected
    assert after.num_rows == len(expected)


# --- comparing --------------------------------------------------------------------------------
def test_equal_tables_have_no_difference_whatever_their_order():
    ours = table(row(1, ratio=float("nan")), row(2, name=None), row(3))
    theirs = table(row(3), row(1, ratio=float("nan")), row(2, name=None))
    assert compare(ours, theirs, ("id",)) == {
        "missing": 0, "surplus": 0, "differing": 0, "doubled": 0, "examples": [],
    }  # fmt: skip


def test_differences_are_named_with_both_values():
    later = NOW + dt.timedelta(microseconds=1)
    ours = table(row(1), row(2), row(3, name=None), row(4), row(5))
    theirs = table(row(2, amount=Decimal("1.51"), at=later), row(3), row(4), row(5), row(6), row(5))
    found = compare(ours, theirs, ("id",))
    assert (found["missing"], found["surplus"], found["differing"]) == (1, 1, 2)
    assert found["doubled"] == 1
    assert found["examples"] == [
        Difference({"id": 1}, "missing"),
        Difference(
            {"id": 2},
            "differs",
            {"amount": (Decimal("1.50"), Decimal("1.51")), "at": (NOW, later)},
        ),
        Difference({"id": 3}, "differs", {"name": (None, "a")}),
        Difference({"id": 6}, "surplus"),
        Difference({"id": 5}, "doubled"),
    ]


def test_counts_are_whole_where_examples_are_not():
    found = compare(table(*(row(n) for n in range(50))), table(), ("id",))
    assert found["missing"] == 50
    assert [d.key["id"] for d in found["examples"]] == list(range(20))


def test_keys_may_be_several_and_all_there_is():
    ours = pa.table({"a": [1, 1], "b": ["x", "y"]})
    theirs = pa.table({"a": [1, 2], "b": ["x", "y"]})
    found = compare(ours, theirs, ("a", "b"))
    assert [(d.key, d.problem) for d in found["examples"]] == [
        ({"a": 1, "b": "y"}, "missing"),
        ({"a": 2, "b": "y"}, "surplus"),
    ]


# --- the slot ---------------------------------------------------------------------------------
READ = Look(True, "7", 1, written=100, active=True, pid=11, confirmed=90, wal_status="reserved")
UNREAD = replace(READ, active=False, pid=None)
RUNNING = Reading("RUNNING", position=90)
DOWN = Reading()


def lasting(*arguments, **options) -> list[str]:
    return [f.text for f in judge(*arguments, **options) if f.lasting]


def passing(*arguments) -> list[str]:
    return [f.text for f in judge(*arguments) if not f.lasting]


@pytest.mark.parametrize(
    ("before", "now", "reading"),
    [
        (None, Look(False, "7", 1, 100), DOWN),  # nothing captured yet
        (None, READ, RUNNING),
        (READ, replace(READ, written=200, confirmed=180), None),
        (READ, UNREAD, DOWN),  # Connect stops
        (UNREAD, replace(READ, pid=12, confirmed=90), RUNNING),  # and comes back
        (UNREAD, replace(UNREAD, confirmed=95), Reading("RUNNING", position=95)),
        (READ, replace(READ, confirmed=50), None),  # a crash: the server had not saved more
        (READ, replace(READ, pid=12), Reading("STOPPED")),  # its position was reset
        (READ, replace(UNREAD, idle_seconds=30.0), DOWN),
    ],
)
def test_what_happens_every_day_is_no_alarm(before, now, reading):
    assert judge(before, now, reading) == []


GONE = Look(False, "7", 1, 100)


@pytest.mark.parametrize(
    ("before", "now", "reading", "said"),
    [
        (READ, GONE, DOWN, "the slot is gone; changes after 0/5A are lost"),
        (READ, replace(UNREAD, wal_status="lost", confirmed=0), DOWN, "gave the slot up"),
        (READ, replace(UNREAD, invalid="wal_removed"), DOWN, "gave the slot up .wal_removed."),
        (READ, replace(READ, pid=12, confirmed=91), RUNNING, "only changes up to 0/5A"),
        (UNREAD, replace(UNREAD, confirmed=91), DOWN, "while nobody of ours read it"),
        (READ, replace(READ, system="8"), None, "another database"),
        (READ, replace(READ, timeline=2), None, "another database"),
        (READ, replace(READ, written=99), None, "set back"),
    ],
)
def test_changes_that_may_be_missing_are_a_lasting_alarm(before, now, reading, said):
    import re

    (text,) = lasting(before, now, reading)
    assert re.search(said, text)


def test_a_slot_recreated_while_nobody_looked_is_told_by_the_connector_that_refuses():
    trouble = "the position it reached is no longer available on the server"
    (text,) = lasting(None, UNREAD, Reading("FAILED", trouble, position=90))
    assert trouble in text
    other = judge(None, UNREAD, Reading("FAILED", "password authentication failed", position=90))
    assert other == [Finding("its connector failed: password authentication failed", False)]


def test_a_worker_may_have_come_and_gone_between_two_distant_looks():
    assert lasting(UNREAD, replace(UNREAD, confirmed=95), DOWN, at_once=False) == []


def test_what_passes_by_itself_is_only_shown():
    (text,) = passing(READ, replace(UNREAD, idle_seconds=61.0), DOWN)
    assert "nobody has read the slot for 61 s" in text
    (text,) = passing(READ, replace(READ, wal_status="unreserved"), None)
    assert "about to give the slot up" in text


@given(st.integers(0, 2**63 - 1))
def test_positions_in_the_log_are_numbers(number):
    assert lsn_number(lsn_text(number)) == number


def test_positions_are_written_as_postgres_does():
    assert lsn_text(0x16B374D848) == "16/B374D848"
    assert lsn_number("0/2B9D5D0") == 45733328


# --- what is captured -------------------------------------------------------------------------
def test_our_own_connectors_are_understood(project):
    (capture,) = captures(project)
    assert (capture.connector, capture.slot) == ("shop", "penstock_shop")
    assert capture_of(project, "shop.public.users") == capture
    with pytest.raises(ServiceFailed, match="no connector"):
        capture_of(project, "shop.public.orders")


def test_a_project_without_connectors_has_nothing_to_watch(settings, tmp_path):
    watch = SlotWatch(replace(settings, project=tmp_path))
    watch.start()
    watch.stop()
    entries = [{"stream": "bronze.x", "topic": "x"}]
    assert watch.marked(entries) == entries


def test_connectors_of_other_kinds_are_left_alone(tmp_path):
    folder = tmp_path / "infra" / "connect"
    folder.mkdir(parents=True)
    sink = {"name": "files", "config": {"connector.class": "org.example.FileSink"}}
    (folder / "files.json").write_text(json.dumps(sink))
    assert captures(tmp_path) == []
