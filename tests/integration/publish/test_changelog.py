"""A changelog topic, read by somebody else, is its live table: whatever happens to either."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from topic_oracle import table_state

from penstock.errors import ProducerUnusable
from penstock.publish.outlet import Outlet
from penstock.publish.run import Publisher
from penstock.runtime.kafka import client_options
from tests.unit.export.export_world import SCHEMAS, World

pytestmark = pytest.mark.platform
HAPPENS = ("append", "update", "update", "compact", "promote", "rollback", "schema", "nothing")


def live_one_step(world: World, dice: random.Random, schemas: list[str]) -> None:
    what = dice.choice(HAPPENS)
    if what == "schema":
        world.promote(dice.choice(schemas))
    elif what == "append":
        world.append(dice.randrange(1, 6))
    elif what != "nothing":
        getattr(world, what)()


def check(oracle, topic: str, world: World, **how) -> None:
    assert oracle.state(topic, world.writer.schema, **how) == table_state(world.rows())


# Avro refuses a number that becomes text; JSON takes anything.
@pytest.mark.parametrize(
    ("format", "seed", "schemas"),
    [("avro", 1, ["base", "more", "wide", "less", "first"]), ("json", 2, list(SCHEMAS))],
)
def test_a_random_life(at, world, declare, publish_all, oracle, format, seed, schemas):
    topic = declare(format=format)
    dice = random.Random(seed)
    for number in range(24):
        live_one_step(world, dice, schemas)
        if dice.random() < 0.5:
            publish_all()
        if number % 8 == 7:
            publish_all()
            check(oracle, topic, world, repeats=True)
    publish_all()
    # Where columns go the whole table is compared, and what has new ones is said again.
    check(oracle, topic, world, repeats=True)


def test_a_promote_and_its_rollback_publish_what_differs(world, declare, publish_all, oracle):
    topic = declare()
    publish_all()
    loaded = len(oracle.records(topic))
    assert loaded == world.rows().num_rows
    before = table_state(world.rows())
    world.promote(alter=0.2)
    differs = before - table_state(world.rows())
    publish_all()
    promoted = len(oracle.records(topic)) - loaded
    assert promoted == len(differs) < loaded
    world.rollback()
    publish_all()
    assert table_state(world.rows()) == before
    check(oracle, topic, world)
    total = len(oracle.records(topic))
    world.promote(alter=0.5)
    world.rollback()  # both before anybody looks: nothing came of it
    publish_all()
    assert len(oracle.records(topic)) == total


def test_a_candidate_publishes_nothing(at, world, declare, publish_all, oracle):
    from penstock.runtime.delta.change import Change
    from penstock.runtime.delta.files import write_arrow
    from penstock.runtime.delta.writer import RevisionWriter
    from tests.unit.export.export_world import BASE, made

    topic = declare()
    publish_all()
    total = len(oracle.records(topic))
    candidate = RevisionWriter(at.warehouse, world.name, "r9", BASE, token=1, live=False)
    rows = made(world.dice, BASE, list(range(500, 520)))
    candidate.commit(write_arrow(rows, candidate.path), {"n": 1}, change=Change(rows))
    publish_all()
    assert len(oracle.records(topic)) == total


def test_a_log_cleaned_past_its_position(at, world, declare, publish_all, oracle):
    topic = declare()
    publish_all()
    for _ in range(3):
        world.update()
        world.append(3)
    DeltaTable(str(world.live)).create_checkpoint()
    for file in sorted((world.live / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    fresh = Publisher(at)
    assert [one["error"] for one in fresh.once()] == [""]
    (told,) = [kept.told() for kept in fresh._kept.values()]
    assert "no longer reaches back" in told["compared"]
    check(oracle, topic, world)
    assert any(sent.row is None for sent in oracle.records(topic)), "what went has a tombstone"


def test_a_topic_made_anew_is_filled_anew(at, world, declare, publish_all, oracle):
    topic = declare()
    publish_all()
    admin = AdminClient(client_options(at, "admin"))
    admin.delete_topics([topic])[topic].result(30)
    fresh = Publisher(at)
    fresh.once()
    (told,) = [kept.told() for kept in fresh._kept.values()]
    assert told["compared"] == "the topic was made anew"
    check(oracle, topic, world)


def test_a_table_made_anew_is_compared(at, world, declare, publish_all, oracle):
    import shutil

    topic = declare()
    for _ in range(4):
        world.append(2)
    publish_all()
    shutil.rmtree(world.live)
    other = World(at, keyed=True, seed=9, rows=5)
    for _ in range(9):
        other.append(1)
    fresh = Publisher(at)
    fresh.once()
    check(oracle, topic, other)


def test_columns_that_readers_could_not_read_stop_it(at, world, declare, publish_all, oracle):
    topic = declare(format="avro")
    publish_all()
    world.promote("text")
    publisher = Publisher(at)
    (told,) = publisher.once()
    assert told["state"] == "waiting"
    assert "cannot take the columns" in told["error"]
    total = len(oracle.records(topic))
    world.rollback()
    (told,) = Publisher(at).once()
    assert (told["state"], told["behind"]) == ("running", 0)
    assert len(oracle.records(topic)) == total, "what was there is what is there"
    check(oracle, topic, world)


def test_whoever_comes_later_is_the_one(at, world, declare, publish_all):
    declare()
    publish_all()
    first, second = Outlet(at), Outlet(at)
    first.open()
    second.open()
    with pytest.raises(ProducerUnusable):
        with first.transaction() as out:
            out.keep("nobody", b"1")
    with second.transaction() as out:
        out.keep("somebody", b"2")
    third = Outlet(at)
    third.open()
    assert third.note("nobody") is None
    assert third.note("somebody") == b"2"
    with third.transaction() as out:
        out.keep("somebody", None)


def test_what_somebody_else_published_meanwhile_is_not_published_again(
    at, world, declare, publisher, publish_all, oracle
):
    """The first is interrupted, another takes over and publishes, the first comes back."""
    topic = declare()
    publish_all()
    publisher._outlet._forget()  # as after a broker that did not answer
    world.update()
    world.append(3)
    Publisher(at).once()
    publish_all()
    check(oracle, topic, world)


def test_keys_that_do_not_name_a_row_are_said(at, declare):
    World(at, keyed=False, rows=20)
    import json

    manifest = json.loads(at.manifest.read_text())
    manifest["tables"][0]["keys"] = ["k"]
    at.manifest.write_text(json.dumps(manifest))
    declare()
    (told,) = Publisher(at).once()
    assert "more than one row with the key" in told["error"]


def test_what_is_published_is_claimed(at, world, declare, publish_all):
    from penstock.runtime.upkeep.claims import Claims

    declare()
    publish_all()
    (claim,) = Claims(at.home).all()
    assert (claim.who, claim.table) == ("publisher", "gold.sums")
    assert claim.version <= world.version
    assert Counter([claim.version]) == Counter([world.version])
