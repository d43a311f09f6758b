"""One batch of many topics: split, committed topic by topic; ingest time never goes back."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import ForeignCommit, LeaseLost, PenstockError
from penstock.model.names import TableName
from penstock.runtime.ingest import lane as lanes
from penstock.runtime.ingest import query as ingest
from penstock.runtime.ingest.bronze import INGESTED, BronzeWriter, bronze_schema
from penstock.runtime.ingest.lane import Lane
from penstock.runtime.ingest.query import (
    Ingest,
    blamed,
    end_offsets,
    split_by_topic,
    starting_offsets,
)
from penstock.runtime.kafka import Topic

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
RECORD = pa.schema(
    [
        field
        for field in bronze_schema()
        if field.name not in ("cluster_id", "topic_id", "ingested_at", "void")
    ]
)


def records(*places: tuple[str, int, int]) -> pa.Table:
    listed = [
        {"key": b"k", "value": f"{topic}{part}{offset}".encode(), "headers": [], "topic": topic,
         "partition": part, "offset": offset, "timestamp": NOON, "timestamp_type": 0}
        for topic, part, offset in places
    ]  # fmt: skip
    return pa.Table.from_pylist(listed, schema=RECORD)


class Held:
    """Stands in for a batch of Spark's: it can only be collected, and counts how often it was."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.collected = 0

    def coalesce(self, tasks: int) -> Held:
        return self

    def toArrow(self) -> pa.Table:
        self.collected += 1
        return self.rows


@pytest.fixture
def lane(tmp_path):
    """Opens a lane of topic ``name``, two partitions unless told otherwise."""

    def open_lane(name, *, token=1, topic_id=None, table="", every=dt.timedelta(0)):
        stream = SimpleNamespace(name=TableName("bronze", table or name), topic=name)
        topic = Topic(name, topic_id or f"id-{name}", "cluster", {0: 0, 1: 0}, {0: 99, 1: 99})
        return Lane(stream, topic, BronzeWriter(tmp_path, stream.name, token=token), every)

    return open_lane


def kept(lane: Lane) -> list[tuple]:
    found = DeltaTable(str(lane.bronze.path)).to_pyarrow_table().to_pylist()
    return sorted((r["topic"], r["partition"], r["offset"]) for r in found)


def the_ingest(*lanes: Lane, told: list[str] | None = None) -> Ingest:
    return Ingest(None, list(lanes), (told if told is not None else []).append)


# --- splitting and offsets ----------------------------------------------------------------------
def test_rows_are_split_by_topic_in_the_order_they_came():
    rows = records(("a", 0, 1), ("b", 0, 7), ("a", 0, 2), ("a", 1, 0))
    parts = split_by_topic(rows)
    assert {name: part["offset"].to_pylist() for name, part in parts.items()} == {
        "a": [1, 2, 0],
        "b": [7],
    }
    assert split_by_topic(parts["b"])["b"] is parts["b"], "one topic alone is not copied"
    assert split_by_topic(rows.slice(0, 0)) == {}


def test_where_a_batch_ends_is_read_for_every_topic(tmp_path):
    (tmp_path / "offsets").mkdir()
    line = json.dumps({"a": {"0": 5, "1": 2}, "b.c": {"0": 0}})
    (tmp_path / "offsets" / "3").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')
    assert end_offsets(tmp_path, 3) == {"a": {0: 5, 1: 2}, "b.c": {0: 0}}


def test_a_start_names_every_partition_of_every_topic(lane):
    first, second = lane("a"), lane("b")
    the_ingest(first, second).take(Held(records(("a", 1, 0))), {"a": {0: 0, 1: 1}, "b": {0: 0}})
    again = [lane("a", token=2), lane("b", token=2)]
    assert json.loads(starting_offsets(again)) == {"a": {"0": 0, "1": 1}, "b": {"0": 0, "1": 0}}


def test_two_tables_of_one_topic_start_at_the_lower_offset_and_double_nothing(lane):
    ahead, behind = lane("a"), lane("a", table="copy")
    the_ingest(ahead).take(Held(records(("a", 0, 0), ("a", 1, 0))), {"a": {0: 1, 1: 1}})
    assert json.loads(starting_offsets([ahead, behind])) == {"a": {"0": 0, "1": 0}}
    both = the_ingest(ahead, behind)
    both.take(Held(records(("a", 0, 0), ("a", 0, 1), ("a", 1, 0))), {"a": {0: 2, 1: 1}})
    assert kept(ahead) == kept(behind) == [("a", 0, 0), ("a", 0, 1), ("a", 1, 0)]


# --- one micro-batch ----------------------------------------------------------------------------
def test_one_collection_and_one_commit_per_topic_that_moved(lane):
    told: list[str] = []
    a, b, idle = lane("a"), lane("b"), lane("c")
    before = idle.bronze.log.version
    batch = Held(records(("a", 0, 0), ("b", 1, 0), ("a", 0, 1)))
    group = the_ingest(a, b, idle, told=told)
    group.take(batch, {"a": {0: 2, 1: 0}, "b": {0: 0, 1: 1}, "c": {0: 0, 1: 0}})
    assert batch.collected == 1
    assert told == ["bronze.a", "bronze.b"]
    assert kept(a) == [("a", 0, 0), ("a", 0, 1)]
    assert kept(b) == [("b", 1, 0)]
    assert idle.bronze.log.version == before
    assert (a.batches, b.batches, idle.batches) == (1, 1, 0)
    assert a.bronze.next_offset(0) == 2
    assert a.bronze.recent.get(a.bronze.log.version) is not None, "followers need not read it"


def test_offsets_that_move_without_a_row_are_kept(lane):
    """Markers of transactions take offsets: an idle topic must not look like one with a gap."""
    a, b = lane("a"), lane("b")
    the_ingest(a, b).take(Held(records(("b", 0, 0))), {"a": {0: 1, 1: 0}, "b": {0: 1, 1: 0}})
    assert a.bronze.next_offset(0) == 1
    assert kept(a) == []


def test_a_topic_whose_commit_fails_takes_no_further_batch_and_stops_no_other(lane, monkeypatch):
    told: list[str] = []
    a, b = lane("a"), lane("b")
    group = the_ingest(a, b, told=told)
    full = OSError("no space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(a.bronze, "append", _raising(full))
        group.take(Held(records(("a", 0, 0), ("b", 0, 0))), {"a": {0: 1}, "b": {0: 1}})
    assert group.trouble() == {"bronze.a": full}
    group.take(Held(records(("a", 0, 1), ("b", 0, 1))), {"a": {0: 2}, "b": {0: 2}})
    assert kept(a) == [], "a later batch would leave a hole"
    assert kept(b) == [("b", 0, 0), ("b", 0, 1)]
    assert told == ["bronze.b", "bronze.b"]


def test_a_foreign_commit_is_the_trouble_of_one_lane_and_a_lost_lease_of_all(lane):
    a, b = lane("a"), lane("b")
    (a.bronze.path / "_delta_log" / f"{a.bronze.log.version + 1:020d}.json").write_text(
        json.dumps({"commitInfo": {}})
    )
    group = the_ingest(a, b)
    group.take(Held(records(("a", 0, 0), ("b", 0, 0))), {"a": {0: 1}, "b": {0: 1}})
    assert isinstance(group.trouble()["bronze.a"], ForeignCommit)
    assert kept(b) == [("b", 0, 0)]
    lane("b", token=2)  # another supervisor takes the table
    with pytest.raises(LeaseLost):
        group.take(Held(records(("b", 0, 1))), {"b": {0: 2}})


def _raising(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_how_big_a_batch_is_counts_all_topics(lane, monkeypatch):
    by_spark: list[str] = []
    monkeypatch.setattr(ingest, "BIG_BATCH_ROWS", 3)
    a, b = lane("a"), lane("b")
    for one in (a, b):
        monkeypatch.setattr(one, "take_frame", lambda *_, one=one: by_spark.append(one.name))
    batch = Held(records())
    batch.persist = lambda: batch
    batch.unpersist = lambda: by_spark.append("released")
    the_ingest(a, b).take(batch, {"a": {0: 2}, "b": {0: 2}})
    assert by_spark == ["bronze.a", "bronze.b", "released"]
    assert batch.collected == 0


# --- who is to blame ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("Cannot fetch offset 5 of partition b.c-11.", ["bronze.bc"]),
        ("Partition trades-0's offset was changed from 9 to 3", ["bronze.trades"]),
        ("Not authorized to access topics: [b.c, other]", ["bronze.bc"]),
        ("shop.trades-0 and trades-1-2 and mytrades-3", ["bronze.trades", "bronze.bc"]),
        ("the network is down", ["bronze.trades", "bronze.bc"]),
    ],
)
def test_an_error_is_the_fault_of_the_topic_it_names(lane, text, streams):
    lanes = [lane("trades"), lane("b.c", table="bc")]
    assert blamed(PenstockError(text), lanes) == streams


# --- ingest time --------------------------------------------------------------------------------
def test_ingest_time_never_goes_back_in_a_table(lane):
    """Not with the clock, not over a restart, not when the topic is made again."""

    def take(one: Lane, offset: int, minutes: int) -> None:
        now = NOON + dt.timedelta(minutes=minutes, microseconds=123_457)
        one.take_rows(records(("a", 0, offset)), {0: offset + 1}, now)
        one.flush()

    first = lane("a")
    take(first, 0, 0)
    take(first, 1, -30)  # the clock is set back
    take(first, 2, 5)
    restarted = lane("a", token=2)
    take(restarted, 3, -60)
    take(lane("a", token=3, topic_id="made again"), 0, 1)
    newest = NOON + dt.timedelta(minutes=5, microseconds=123_457)
    rows = DeltaTable(str(first.bronze.path)).to_pyarrow_table().sort_by("ingested_at")
    assert [moment - NOON for moment in rows["ingested_at"].to_pylist()] == [
        dt.timedelta(microseconds=123_457)
    ] * 2 + [newest - NOON] * 3
    table = DeltaTable(str(first.bronze.path))
    assert table.transaction_version(INGESTED) == int(newest.timestamp()) * 1_000_000 + 123_457


# --- rows that may wait -------------------------------------------------------------------------
def test_rows_nobody_is_in_a_hurry_for_are_held_and_committed_together(lane):
    one = lane("a", every=dt.timedelta(hours=1))
    before = one.bronze.log.version
    one.take_rows(records(("a", 0, 0)), {0: 1}, NOON)
    one.take_rows(records(("a", 0, 1), ("a", 1, 0)), {0: 2, 1: 1}, NOON - dt.timedelta(minutes=1))
    assert not one.is_due
    assert (one.count({0: 2, 1: 1}), one.behind({0: 2, 1: 1})) == (0, 3)  # read, not yet in bronze
    one.every = dt.timedelta(0)
    assert one.is_due
    one.flush()
    assert one.bronze.log.version == before + 1
    assert (one.offsets, one.behind({0: 2, 1: 1})) == ({0: 2, 1: 1}, 0)
    rows = DeltaTable(str(one.bronze.path)).to_pyarrow_table()
    assert sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert set(rows["ingested_at"].to_pylist()) == {NOON}  # the clock went back meanwhile


def test_held_rows_are_read_again_after_a_crash(lane):
    one = lane("a", every=dt.timedelta(hours=1))
    one.take_rows(records(("a", 0, 0)), {0: 1}, NOON)
    after = lane("a", token=2)
    assert after.count({0: 1}) == 1
    after.take_rows(records(("a", 0, 0)), {0: 1}, NOON)
    after.flush()
    assert DeltaTable(str(one.bronze.path)).to_pyarrow_table().num_rows == 1


def test_many_held_bytes_do_not_wait(lane, monkeypatch):
    one = lane("a", every=dt.timedelta(hours=1))
    monkeypatch.setattr(lanes, "_MOST_HELD", 10)
    one.take_rows(records(("a", 0, 0)), {0: 1}, NOON)
    assert one.is_due
