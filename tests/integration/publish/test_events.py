"""Event topics: every row once, whatever is promoted, rolled back or killed."""

from __future__ import annotations

from collections import Counter

import pytest
from deltalake import DeltaTable
from topic_oracle import shown, table_state

from penstock.publish.run import Publisher, go_on_wish
from tests.unit.export.export_world import World

pytestmark = pytest.mark.platform


def kinds(records) -> Counter[str]:
    return Counter(sent.headers["penstock-change"] for sent in records)


@pytest.mark.parametrize("keyed", [True, False])
def test_events_add_up_to_the_table(at, declare, publish_all, oracle, keyed):
    world = World(at, keyed=keyed, rows=20)
    topic = declare("events", format="avro")
    publish_all()
    for number in range(6):
        world.append(4)
        if number % 2:
            world.promote(alter=0.3)
        if number == 3:
            world.rollback()
        world.compact()
        if number % 3 == 0:
            publish_all()
    publish_all()
    rows: Counter[str] = Counter()
    current: dict[object, str] = {}
    schema = world.writer.schema
    for sent in oracle.records(topic):
        text = shown(sent.row, schema)
        change = sent.headers["penstock-change"]
        if change == "update":
            rows[current[sent.key]] -= 1
        rows[text] += -1 if change == "delete" else 1
        current[sent.key] = text
    assert +rows == table_state(world.rows())


def test_without_corrections_a_key_is_sent_once_for_ever(at, world, declare, oracle):
    topic = declare("events", corrections=False)
    Publisher(at).once()
    ever = set(world.rows()["k"].to_pylist())
    for _ in range(4):
        world.append(3)
        Publisher(at).once()
        world.promote(alter=0.4)  # takes rows away, changes others
        ever |= set(world.rows()["k"].to_pylist())
        Publisher(at).once()
        world.rollback()
        ever |= set(world.rows()["k"].to_pylist())
        Publisher(at).once()
    found = oracle.records(topic)
    assert kinds(found).keys() == {"insert"}
    times = Counter(sent.row["k"] for sent in found)
    assert set(times) == ever
    assert set(times.values()) == {1}


def test_history_is_left_out_if_that_is_declared(world, declare, publish_all, oracle):
    topic = declare("events", history=False)
    publish_all()
    assert oracle.records(topic) == []
    known = set(world.rows()["k"].to_pylist())
    world.append(3)
    publish_all()
    new = set(world.rows()["k"].to_pylist()) - known
    assert {sent.row["k"] for sent in oracle.records(topic)} == new


def test_events_that_lost_their_place_wait_to_be_told(at, world, declare, publish_all, oracle):
    topic = declare("events")
    publish_all()
    total = len(oracle.records(topic))
    for _ in range(3):
        world.append(2)
    DeltaTable(str(world.live)).create_checkpoint()
    for file in sorted((world.live / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    fresh = Publisher(at)
    (told,) = fresh.once()
    assert told["state"] == "parked"
    assert "--go-on" not in told["target"]
    assert len(oracle.records(topic)) == total
    go_on_wish(at, topic).touch()
    other = Publisher(at)
    other.once()
    (told,) = other.once()
    assert told["state"] == "running"
    world.append(2)
    other.once()
    assert len(oracle.records(topic)) == total + 2
