"""Two topics through one query on the real broker: each comes, goes and fails by itself."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from penstock.model.names import TableName
from penstock.runtime.ingest import query as ingest
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.ingest.worker import IngestGroup
from penstock.runtime.kafka import client_options
from penstock.runtime.registry import Registry
from tests.live import wait_for

pytestmark = [pytest.mark.platform, pytest.mark.spark]


class Pair:
    """A group over two topics of this test alone, and the means to feed and read them."""

    def __init__(self, spark, settings, folder) -> None:
        run = uuid.uuid4().hex[:8]
        self.settings, self.folder = settings, folder
        quiet = client_options(settings, "admin") | {"log_level": 0}
        self.admin, self.producer = AdminClient(quiet), Producer(quiet)
        self.streams = {
            name: SimpleNamespace(name=TableName("bronze", name), topic=f"shop.{run}.{name}")
            for name in ("first", "second")
        }
        self.writers: dict[TableName, BronzeWriter] = {}
        self.woken: list[str] = []
        self.sent: dict[str, list[bytes]] = {"first": [], "second": []}
        self._spark = spark
        self.group = self.group_of(*self.streams)

    def group_of(self, *names: str) -> IngestGroup:
        return IngestGroup(
            self._spark,
            self.settings,
            [self.streams[name] for name in names],
            self._bronze,
            on_commit=self.woken.append,
            on_lease_lost=lambda: None,
        )

    def _bronze(self, name: TableName) -> BronzeWriter:
        if name not in self.writers:
            self.writers[name] = BronzeWriter(self.folder, name, token=1)
        return self.writers[name]

    def create(self, name: str) -> None:
        topic = self.streams[name].topic
        self.admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)

    def delete(self, name: str) -> None:
        topic = self.streams[name].topic
        self.admin.delete_topics([topic], operation_timeout=30)[topic].result(30)

    def send(self, name: str, count: int = 5) -> None:
        for _ in range(count):
            value = f"{name} {uuid.uuid4().hex}".encode()
            self.producer.produce(self.streams[name].topic, value, headers=[("h", b"1")])
            self.sent[name].append(value)
        assert self.producer.flush(30) == 0

    def kept(self, name: str) -> list[bytes]:
        table = DeltaTable(str(self.folder / "bronze" / name))
        return table.to_pyarrow_table()["value"].to_pylist()

    def arrived(self, name: str) -> bool:
        return sorted(self.kept(name)) == sorted(self.sent[name])

    def status(self, name: str) -> dict:
        return next((s for s in self.group.statuses() if s["table"] == f"bronze.{name}"), {})

    def wait_state(self, name: str, state: str | None) -> None:
        wait_for(f"{name} to be {state}", lambda: self.status(name).get("state") == state)


@pytest.fixture
def pair(spark, stack, tmp_path) -> Iterator[Pair]:
    pair = Pair(spark, stack.settings, tmp_path)
    yield pair
    pair.group.ask_to_stop()
    pair.group.join(60)
    assert pair.group.ended
    pair.admin.delete_topics([stream.topic for stream in pair.streams.values()])
    assert not list((stack.settings.run / "checkpoints").glob("ingest-*")), "checkpoints are gone"


def test_a_topic_made_later_joins_and_one_can_be_stopped_and_started(pair):
    pair.create("first")
    pair.group.start()
    pair.wait_state("first", "running")
    pair.wait_state("second", "waiting")
    assert "does not tell about topic" in pair.status("second")["error"]
    pair.send("first")
    wait_for("the rows of the first", lambda: pair.arrived("first"))

    pair.create("second")
    pair.send("second")
    pair.wait_state("second", "running")
    pair.send("first")
    pair.send("second")
    for name in ("first", "second"):
        wait_for(f"the rows of the {name}", lambda name=name: pair.arrived(name))
    wait_for("nothing behind", lambda: pair.status("second")["behind"] == 0)
    assert pair.status("first")["batch_ms"]
    assert {"bronze.first", "bronze.second"} == set(pair.woken)

    with closing(Registry(pair.settings)) as registry:
        registry.create()

        def converge() -> None:
            """As the supervisor does, from what the registry says."""
            wishes = registry.wishes()
            wanted = pair.streams.values()
            pair.group.want(s for s in wanted if wishes.get(str(s.name), (True, 0))[0])

        registry.wish("bronze.second", running=False, restart=False, said_by="test")
        converge()
        pair.wait_state("second", None)
        pair.send("first")
        pair.send("second")
        wait_for("the rows of the first", lambda: pair.arrived("first"))
        assert not pair.arrived("second")
        registry.wish("bronze.second", running=True, restart=False, said_by="test")
        converge()
        wait_for("the rows of the second", lambda: pair.arrived("second"))
    batches = pair.status("first")["batches"]
    pair.group.restart("bronze.first")
    wait_for("a fresh start", lambda: pair.status("first")["batches"] < batches)
    pair.send("first")
    wait_for("the rows of the first", lambda: pair.arrived("first"))


def test_a_topic_deleted_under_the_query_stops_nobody_else_and_may_come_back(pair):
    pair.create("first")
    pair.create("second")
    pair.send("first")
    pair.send("second")
    pair.group.start()
    for name in ("first", "second"):
        wait_for(f"the rows of the {name}", lambda name=name: pair.arrived(name))
    pair.delete("second")
    pair.wait_state("second", "waiting")
    pair.wait_state("first", "running")
    pair.send("first")
    wait_for("the rows of the first", lambda: pair.arrived("first"))
    pair.create("second")
    pair.wait_state("second", "running")
    pair.send("second", 3)
    wait_for("rows of both lives", lambda: pair.arrived("second"))
    table = DeltaTable(str(pair.folder / "bronze" / "second")).to_pyarrow_table()
    assert len(table["topic_id"].unique()) == 2


def test_two_groups_of_as_many_topics_run_at_once_and_a_topic_goes_over(pair):
    """As a supervisor has them: one for what somebody is in a hurry for, one for the rest."""
    for name in ("first", "second"):
        pair.create(name)
        pair.send(name)
    pair.group.want([pair.streams["first"]])
    other = pair.group_of("second")
    pair.group.start()
    other.start()
    try:
        for name in ("first", "second"):
            wait_for(f"the rows of the {name}", lambda name=name: pair.arrived(name), 60)
        other.want([])
        pair.send("second")
        wait_for("the second to be left", lambda: not other.has("bronze.second"), 60)
        pair.group.want(pair.streams.values())
        for name in ("first", "second"):
            pair.send(name)
            wait_for(f"each row of the {name} once", lambda name=name: pair.arrived(name), 60)
    finally:
        other.ask_to_stop()
        other.join(60)
    assert other.ended


def test_a_big_batch_of_two_topics_is_written_by_spark(pair, monkeypatch):
    monkeypatch.setattr(ingest, "BIG_BATCH_ROWS", 50)
    for name in ("first", "second"):
        pair.create(name)
        pair.send(name, 40)
    pair.group.start()
    for name in ("first", "second"):
        wait_for(f"the rows of the {name}", lambda name=name: pair.arrived(name))
        uris = DeltaTable(str(pair.folder / "bronze" / name)).file_uris()
        assert all("batch-" in uri for uri in uris), "Spark wrote them"
    monkeypatch.setattr(ingest, "BIG_BATCH_ROWS", 100_000)
    pair.send("first", 2)
    wait_for("two more", lambda: pair.arrived("first"))
    rows = DeltaTable(str(pair.folder / "bronze" / "first")).to_pyarrow_table()
    moments = sorted(zip(rows["ingested_at"].to_pylist(), rows["value"].to_pylist(), strict=True))
    assert {value for _, value in moments[-2:]} == set(pair.sent["first"][-2:])
    assert moments[-1][0] - moments[0][0] < dt.timedelta(minutes=5)
