"""Ingest progress is seen by ordinary lag tools, and told with just that right."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from penstock.runtime.ingest import progress
from penstock.runtime.ingest.progress import Progress
from penstock.runtime.kafka import client_options

pytestmark = pytest.mark.platform


def committed(at, group: str) -> dict[tuple[str, int], int]:
    """As `kafka-consumer-groups --describe` asks, by the user that only watches."""
    admin = AdminClient(client_options(at, "watch"))
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    parts = found.result(10).topic_partitions
    return {(part.topic, part.partition): part.offset for part in parts}


def told(teller: Progress, reached, until) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline, teller.trouble
        teller.tell(reached)
        time.sleep(0.1)


def test_a_streams_position_is_a_groups_offset(at, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY", 0.2)
    stream = f"bronze.t_{uuid.uuid4().hex[:8]}"
    group, teller = f"penstock.{stream}", Progress(at)
    told(teller, [(stream, "trades", {0: 7, 3: 12})], lambda: committed(at, group))
    assert committed(at, group) == {("trades", 0): 7, ("trades", 3): 12}
    told(
        teller,
        [(stream, "trades", {0: 9, 3: 12})],
        lambda: committed(at, group)["trades", 0] == 9,
    )
    assert teller.trouble == ""


def test_it_is_told_for_no_topic_that_is_not_read(at, monkeypatch):
    """The supervisor may not read connect's topics: the broker refuses, nobody falls over."""
    monkeypatch.setattr(progress, "_EVERY", 0.2)
    teller = Progress(at)
    told(teller, [("bronze.x", "connect-configs", {0: 1})], lambda: teller.trouble)
    assert committed(at, "penstock.bronze.x") == {}
