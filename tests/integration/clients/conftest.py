"""Topics of a test's own, and what is in them, read without our clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.clients import RecordProducer
from penstock.platform.stack import Stack
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

MakeTopic = Callable[..., str]
ReadAll = Callable[[str], list[Message]]


@pytest.fixture
def at(stack: Stack) -> Settings:
    """Where the broker is."""
    return stack.settings


@pytest.fixture
def admin(at: Settings) -> AdminClient:
    return AdminClient(client_options(at, "admin") | {"log_level": 0})


@pytest.fixture
def make_topic(admin: AdminClient) -> MakeTopic:
    def make(partitions: int = 4, prefix: str = "app.t", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture
def group() -> str:
    return f"app-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def send(at: Settings) -> Callable[[str, int], None]:
    """So many records, numbered by their values, over all partitions."""

    def send(topic: str, count: int, first: int = 0, **more: Any) -> None:
        with RecordProducer(at, user="app") as producer:
            for number in range(first, first + count):
                producer.send(topic, b"%d" % number, b"k-%d" % number, **more)
        assert producer.failed == 0

    return send


@pytest.fixture
def committed(at: Settings) -> Callable[[str, str], dict[int, int]]:
    """A group's committed offsets, by partition; those without are left out."""

    def ask(group: str, topic: str) -> dict[int, int]:
        asker = Consumer(client_options(at, "admin") | {"group.id": group})
        try:
            numbers = asker.list_topics(topic, timeout=30).topics[topic].partitions
            found = asker.committed([TopicPartition(topic, n) for n in numbers], timeout=30)
            return {part.partition: part.offset for part in found if part.offset >= 0}
        finally:
            asker.close()

    return ask


@pytest.fixture
def read_all(at: Settings) -> ReadAll:
    """Everything that is in a topic and committed, partition by partition."""

    def read(topic: str) -> list[Message]:
        options = {"group.id": "unused", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer(client_options(at, "admin") | options)
        found: list[Message] = []
        try:
            open_ = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in open_])
            deadline = time.monotonic() + 60
            while open_:
                assert time.monotonic() < deadline, f"{topic}: {open_} do not end"
                message = consumer.poll(1)
                if message is not None and message.error():
                    open_.discard(message.partition())
                elif message is not None:
                    found.append(message)
        finally:
            consumer.close()
        return sorted(found, key=lambda m: (m.partition(), m.offset()))

    return read
