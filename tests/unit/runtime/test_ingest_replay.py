"""A batch handed over twice, by Arrow and by Spark; a topic made again; a gap."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from penstock.errors import PenstockError
from penstock.model.names import TableName
from penstock.runtime.ingest import query as ingest
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.ingest.lane import Lane
from penstock.runtime.ingest.query import Ingest
from penstock.runtime.kafka import Topic

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
KINDS = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, "
    "partition int, offset bigint, timestamp timestamp, timestamp_type int"
)


def records(spark, last: int, *topics: str):
    """Offsets 0 to ``last`` of two partitions of each topic."""
    listed = [
        (b"k", bytes([0]), [], topic, part, offset, NOON, 0)
        for topic in topics
        for part in (0, 1)
        for offset in range(last)
    ]
    return spark.createDataFrame(listed, KINDS)


@pytest.fixture
def open_lane(tmp_path):
    def make(name: str, token: int, topic_id: str = "id-1", earliest: int = 0, latest: int = 99):
        stream = SimpleNamespace(name=TableName("bronze", name), topic=name)
        topic = Topic(name, topic_id, "cluster", {0: earliest, 1: 0}, {0: latest, 1: 99})
        return Lane(stream, topic, BronzeWriter(tmp_path, stream.name, token=token))

    return make


def take(spark, lanes: list[Lane], last: int) -> None:
    names = [lane.topic.name for lane in lanes]
    Ingest(spark, lanes, lambda _: None).take(
        records(spark, last, *names), {name: {0: last, 1: last} for name in names}
    )


def places(lane: Lane) -> list[tuple]:
    found = DeltaTable(str(lane.bronze.path)).to_pyarrow_table().to_pylist()
    return sorted((r["topic"], r["topic_id"], r["partition"], r["offset"]) for r in found)


@pytest.mark.parametrize("bound", [1000, 2], ids=["by Arrow", "by Spark"])
def test_a_batch_that_comes_again_writes_nothing_twice(spark, open_lane, monkeypatch, bound):
    monkeypatch.setattr(ingest, "BIG_BATCH_ROWS", bound)
    take(spark, [open_lane("a", 1), open_lane("b", 1)], 5)
    again = [open_lane("a", 2), open_lane("b", 2)]  # as after a crash: no checkpoint
    for lane in again:
        assert lane.offsets == {0: 5, 1: 5}
        lane._reached = {0: 0, 1: 0}  # Spark hands over more than it should
    take(spark, again, 7)
    for lane in again:
        name = lane.topic.name
        assert places(lane) == [(name, "id-1", p, o) for p in (0, 1) for o in range(7)]
        by_spark = [uri for uri in DeltaTable(str(lane.bronze.path)).file_uris() if "batch-" in uri]
        assert bool(by_spark) == (bound == 2)


def test_a_recreated_topic_starts_anew_and_keeps_the_old_rows(spark, open_lane):
    take(spark, [open_lane("a", 1)], 2)
    made_again = open_lane("a", 2, "id-2")
    take(spark, [made_again], 2)
    expected = [("a", i, p, o) for i in ("id-1", "id-2") for p in (0, 1) for o in (0, 1)]
    assert places(made_again) == expected


def test_a_gap_in_the_topic_is_refused_not_skipped(spark, open_lane):
    take(spark, [open_lane("a", 1)], 2)
    with pytest.raises(PenstockError, match="48 rows are gone from the topic"):
        open_lane("a", 2, earliest=50)
    with pytest.raises(PenstockError, match="before bronze's offset 2"):
        open_lane("a", 3, latest=1)
