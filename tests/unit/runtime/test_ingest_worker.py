"""The ingest group: who takes part in the query, and what happens to those who cannot."""

from __future__ import annotations

import datetime as dt
import time
from types import SimpleNamespace

import pytest

from penstock.errors import ForeignCommit, LeaseLost, ServiceFailed
from penstock.model.names import TableName
from penstock.runtime.ingest import worker as ingest_worker
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.ingest.worker import IngestGroup
from penstock.runtime.kafka import Topic


def stream(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=TableName("bronze", name), topic=name)


class Broker:
    """Topics of this test; one that is not there is told of, as the broker does."""

    def __init__(self, *names: str) -> None:
        self.known = {name: f"id-{name}" for name in names}

    def describe(self, names):
        return {
            name: Topic(name, self.known[name], "c", {0: 0}, {0: 9})
            if name in self.known
            else ServiceFailed(f"Kafka does not tell about topic {name}: unknown")
            for name in list(names)
        }

    def ids(self, names):
        return {name: self.known[name] for name in names if name in self.known}


class Query:
    """Stands in for Spark's: runs until a test breaks it."""

    def __init__(self, session, lanes, on_commit, *, every, on_trouble) -> None:
        self.lanes, self.every, self.on_commit = lanes, every, on_commit
        self.running = False
        self.broken: dict[str, Exception] = {}
        self.stopped = False

    def start(self, options, scratch) -> None:
        self.running = True

    def stop(self) -> None:
        self.running, self.stopped = False, True

    def trouble(self) -> dict[str, Exception]:
        return self.broken

    def flush_due(self) -> None:
        pass

    def progress(self):
        return {"triggerExecution": 5}, {lane.topic.name: {0: 9} for lane in self.lanes}


class Bench:
    """A group, the queries it made, and what it told."""

    def __init__(self, folder, broker: Broker, *names: str) -> None:
        self.queries: list[Query] = []
        self.broker = broker
        self.lost: list[bool] = []
        self._writers: dict[TableName, BronzeWriter] = {}
        self.folder = folder
        self.group = IngestGroup(
            None,
            SimpleNamespace(run=folder),
            [stream(name) for name in names],
            self.bronze,
            on_commit=lambda _: None,
            on_lease_lost=lambda: self.lost.append(True),
            topics=broker,
            query=self._query,
        )
        self.group.start()

    def _query(self, *args, **options) -> Query:
        self.queries.append(Query(*args, **options))
        return self.queries[-1]

    def bronze(self, name: TableName) -> BronzeWriter:
        if name not in self._writers:
            self._writers[name] = BronzeWriter(self.folder, name, token=1)
        return self._writers[name]

    def states(self) -> dict[str, str]:
        return {s["stream"].split(".")[1]: s["state"] for s in self.group.statuses()}

    def until(self, **states: str) -> None:
        deadline = time.monotonic() + 10
        while self.states() != states:
            assert time.monotonic() < deadline, f"{self.states()} instead of {states}"
            time.sleep(0.01)

    @property
    def read(self) -> list[str]:
        """The topics of the query that runs."""
        return sorted(lane.topic.name for lane in self.queries[-1].lanes)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_worker, "_LOOK", 0.02)
    monkeypatch.setattr(ingest_worker, "_LOOK_AT_IDS", 0.1)
    monkeypatch.setattr(ingest_worker, "_FIRST_WAIT", 0.05)
    monkeypatch.setattr(ingest_worker, "_LONGEST_WAIT", 0.2)
    monkeypatch.setattr(ingest_worker, "spark_options", lambda _: {})
    benches: list[Bench] = []

    def make(broker: Broker, *names: str) -> Bench:
        benches.append(Bench(tmp_path, broker, *names))
        return benches[-1]

    yield make
    for one in benches:
        one.group.ask_to_stop()
        one.group.join(5)
        assert one.group.ended
        assert all(query.stopped for query in one.queries[:-1])


def test_all_topics_share_one_query_and_each_has_a_status(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    assert len(here.queries) == 1
    assert here.read == ["a", "b"]
    assert here.group.statuses()[0] | {"idle_seconds": 0} == {
        "stream": "bronze.a",
        "state": "running",
        "idle_seconds": 0,
        "failures": 0,
        "error": "",
        "table": "bronze.a",
        "topic": "a",
        "version": 1,
        "behind": 9,
        "batches": 0,
        "batch_ms": {"triggerExecution": 5},
    }


def test_a_missing_topic_waits_alone_and_joins_when_it_is_there(bench):
    here = bench(Broker("a"), "a", "late")
    here.until(a="running", late="waiting")
    time.sleep(0.4)  # several tries
    assert len(here.queries) == 1, "nobody restarts while it still cannot join"
    told = next(s for s in here.group.statuses() if s["topic"] == "late")
    assert "does not tell about topic late" in told["error"]
    assert told["failures"] > 1
    here.broker.known["late"] = "id-late"
    here.until(a="running", late="running")
    assert len(here.queries) == 2
    assert here.read == ["a", "late"]


def test_streams_stop_and_start_one_by_one(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    here.group.want([stream("b")])
    here.until(b="running")
    assert here.read == ["b"]
    assert here.queries[0].stopped, "gone from the list means it cannot write any more"
    here.group.want([stream("a"), stream("b")])
    here.until(a="running", b="running")
    here.group.want([])
    here.until()
    assert here.queries[-1].stopped


def test_saying_the_same_again_changes_nothing_and_another_pace_restarts(bench):
    here = bench(Broker("a"), "a")
    here.until(a="running")
    for _ in range(5):
        here.group.want([stream("a")])
        time.sleep(0.03)
    assert len(here.queries) == 1
    here.group.want([stream("a")], dt.timedelta(seconds=2))
    _wait(lambda: len(here.queries) == 2)
    here.until(a="running")
    assert here.queries[-1].every == dt.timedelta(seconds=2)


def test_a_restart_begins_one_stream_afresh_and_keeps_the_counts_of_others(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    for lane in here.queries[-1].lanes:
        lane.batches = 7
    here.group.restart("bronze.a")
    _wait(lambda: len(here.queries) == 2)
    here.until(a="running", b="running")
    assert {s["topic"]: s["batches"] for s in here.group.statuses()} == {"a": 0, "b": 7}


def test_a_lane_in_trouble_leaves_and_comes_back_with_back_off(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    here.queries[-1].broken = {"bronze.a": OSError("disk full")}
    _wait(lambda: len(here.queries) == 2 and here.read == ["b"])
    here.until(a="running", b="running")
    assert here.read == ["a", "b"]


def test_a_foreign_commit_parks_one_stream_until_it_is_restarted(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    here.queries[-1].broken = {"bronze.a": ForeignCommit("version 3 was somebody else's")}
    here.until(a="parked", b="running")
    time.sleep(0.3)
    assert here.states() == {"a": "parked", "b": "running"}
    here.group.restart("bronze.a")
    here.until(a="running", b="running")


def test_a_lost_lease_ends_the_group(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    here.queries[-1].broken = {"bronze.a": LeaseLost("token 2 rules")}
    _wait(lambda: here.group.ended)
    assert here.lost == [True]
    assert here.states() == {"a": "stopped", "b": "stopped"}
    assert here.queries[-1].stopped


def test_a_query_that_dies_is_started_again(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    died = OSError("the network is down")
    here.queries[-1].broken = {"bronze.a": died, "bronze.b": died}
    here.queries[-1].running = False
    _wait(lambda: len(here.queries) > 1)
    here.until(a="running", b="running")


def test_a_gap_and_a_recreated_topic(bench):
    here = bench(Broker("a", "b"), "a", "b")
    here.until(a="running", b="running")
    writer = here.bronze(TableName("bronze", "a"))
    writer.append([], {0: 50}, None)  # bronze is ahead of what the broker has: another broker?
    here.group.restart("bronze.a")
    here.until(a="waiting", b="running")
    told = next(s for s in here.group.statuses() if s["topic"] == "a")
    assert "before bronze's offset 50" in told["error"]
    here.broker.known["a"] = "made again"
    here.until(a="running", b="running")
    assert writer.topic_id == "made again"
    queries = len(here.queries)
    here.broker.known["b"] = "made again too"
    _wait(lambda: len(here.queries) == queries + 1)
    here.until(a="running", b="running")
    assert here.bronze(TableName("bronze", "b")).topic_id == "made again too"


def _wait(check) -> None:
    deadline = time.monotonic() + 10
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)
