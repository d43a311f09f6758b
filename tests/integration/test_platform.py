"""The real services, started by the stack: they answer, are what was asked for, and persist."""

from __future__ import annotations

import os
import signal
import time
import uuid

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from penstock.platform.http import ask
from penstock.platform.postgres_admin import connect
from penstock.platform.stack import Event, Stack
from penstock.runtime.kafka import client_options

pytestmark = pytest.mark.platform
LIGHT = ["postgres", "kafka", "registry"]


def test_up_again_is_quick_and_changes_nothing(stack: Stack) -> None:
    before = {s.name: s.pid for s in stack.status()}
    events: list[Event] = []
    began = time.monotonic()
    Stack(stack.settings).up(only=LIGHT, report=events.append)
    assert time.monotonic() - began < 10
    assert {e.service for e in events if e.state == "unchanged"} == set(LIGHT)
    assert {s.name: s.pid for s in stack.status()} == before


def test_status_tells_state_pid_port_and_memory(stack: Stack) -> None:
    for status in stack.status():
        if status.name in LIGHT:
            assert status.state == "running"
            assert psutil.pid_exists(status.pid or 0)
            assert status.memory_bytes > 5 * 2**20
            assert all(port > 7000 for port in status.ports.values())
        else:
            assert status.state == "stopped"


def test_everything_listens_on_loopback_only(stack: Stack) -> None:
    found = set()
    for name in LIGHT:
        recorded = stack.services[name].pid_file.read()
        assert recorded is not None
        for process in recorded.members():
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    found.add((name, connection.laddr.ip.removeprefix("::ffff:")))
    assert found == {(name, "127.0.0.1") for name in LIGHT}


def test_topics_are_what_the_spec_says(stack: Stack) -> None:
    admin = AdminClient(client_options(stack.settings, "admin"))
    found = admin.list_topics(timeout=10).topics
    for topic in stack.spec.topics:
        assert len(found[topic.name].partitions) == topic.partitions
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        config = admin.describe_configs([resource])[resource].result(10)
        assert {key: config[key].value for key in topic.config} == topic.config


def test_a_record_as_large_as_allowed_goes_through_and_a_larger_one_does_not(stack: Stack) -> None:
    limit = stack.spec.max_message_bytes
    seen: list[str | None] = []
    producer = Producer(
        client_options(stack.settings, "demo-producer")
        | {"message.max.bytes": 4 * limit, "compression.type": "none"}
    )
    for size in (limit - 200, limit + 1000):
        producer.produce(
            "trades", os.urandom(size), on_delivery=lambda e, _: seen.append(e and e.name())
        )
        producer.flush(20)
    assert seen == [None, "MSG_SIZE_TOO_LARGE"]


def test_the_registry_keeps_schemas_and_refuses_what_is_not_fully_compatible(stack: Stack) -> None:
    url = stack.settings.registry_url
    assert ask(f"{url}/config").body["compatibilityLevel"] == "FULL_TRANSITIVE"
    subject = f"test-{uuid.uuid4().hex[:8]}-value"

    def register(fields: str) -> int:
        schema = f'{{"type":"record","name":"R","fields":[{fields}]}}'
        return ask(
            f"{url}/subjects/{subject}/versions", method="POST", body={"schema": schema}
        ).status

    assert register('{"name":"a","type":"int"}') == 200
    assert register('{"name":"a","type":"int"},{"name":"b","type":"int","default":0}') == 200
    assert register('{"name":"a","type":"int"},{"name":"c","type":"int"}') in (409, 422)
    with connect(stack.settings, "postgres", "registry") as database:
        cursor = database.cursor()
        cursor.execute("SELECT count(*) FROM artifacts")
        assert cursor.fetchone()[0] >= 1


def test_postgres_speaks_logical_replication_and_holds_the_shop(stack: Stack) -> None:
    with connect(stack.settings, "shop", "shop") as shop:
        cursor = shop.cursor()
        cursor.execute("SHOW wal_level")
        assert cursor.fetchone()[0] == "logical"
        cursor.execute("SELECT count(*) FROM users")
        assert cursor.fetchone()[0] >= 5
        cursor.execute("SELECT relreplident FROM pg_class WHERE relname = 'users'")
        assert cursor.fetchone()[0] == "f"
        cursor.execute("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'users'")
        assert cursor.fetchone()[0] == "shop"


def test_a_killed_service_comes_back_with_its_data(stack: Stack) -> None:
    value = uuid.uuid4().hex.encode()
    producer = Producer(client_options(stack.settings, "demo-producer") | {"acks": "all"})
    producer.produce("trades", value, partition=0)
    assert producer.flush(20) == 0
    with connect(stack.settings, "shop", "shop") as shop:
        shop.cursor().execute("UPDATE users SET tier = 'gold' WHERE user_id = 3")
    for name in ("kafka", "postgres"):
        os.kill(stack.services[name].pid_file.read().pid, signal.SIGKILL)
    time.sleep(0.5)
    assert {s.name: s.state for s in stack.status()}["kafka"] == "dead"

    stack.up(only=LIGHT)

    with connect(stack.settings, "shop", "shop") as shop:
        cursor = shop.cursor()
        cursor.execute("SELECT tier FROM users WHERE user_id = 3")
        assert cursor.fetchone()[0] == "gold"
    assert value in _values(stack)


def _values(stack: Stack) -> set[bytes]:
    """What `trades` holds now, read as the supervisor does."""
    consumer = Consumer(
        client_options(stack.settings, "supervisor")
        | {"group.id": f"penstock-{uuid.uuid4().hex}", "auto.offset.reset": "earliest"}
        | {"enable.partition.eof": True}
    )
    consumer.subscribe(["trades"])
    values, ended = set(), set()
    deadline = time.monotonic() + 60
    while len(ended) < 4 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            values.add(message.value())
    consumer.close()
    return values
