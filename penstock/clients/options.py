"""What a client of this stack is set to, unless its owner says otherwise.

Every default here is one that loses nothing; librdkafka's names are kept, so that its own
documentation applies. The password comes from the stack's secret file and goes nowhere else:
librdkafka does not log it, and nothing here does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from penstock.errors import UsageError
from penstock.runtime.kafka import MAX_RECORD_BYTES, client_options
from penstock.settings import Settings

__all__ = [
    "DELIVERY_SECONDS",
    "TRANSACTION_SECONDS",
    "Options",
    "consumer_options",
    "opened",
    "producer_options",
]

Options = Mapping[str, Any]
Client = TypeVar("Client")

# How long a record is tried. Our broker is back 5 to 20 s after a kill -9 on two busy cores; a
# restart of a machine takes minutes. Whatever is not delivered by then goes to the errors file.
DELIVERY_SECONDS = 300
TRANSACTION_SECONDS = 120

_LOG = logging.getLogger("penstock.clients.kafka")


def producer_options(
    settings: Settings,
    user: str,
    *,
    transactional_id: str | None = None,
    options: Options | None = None,
) -> dict[str, Any]:
    """Settings of a producer that neither loses, doubles nor reorders."""
    chosen = {
        **client_options(settings, user),
        "acks": "all",
        # Numbers every record, so that a repeated request is written once, and in order with up to
        # five requests under way.
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "delivery.timeout.ms": DELIVERY_SECONDS * 1000,  # retries are bounded by time, not number
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 1000,
        "reconnect.backoff.max.ms": 1000,  # a broker that is back is found within a second
        # Java's partitioner, so that keys land where Kafka's own clients put them.
        "partitioner": "murmur2_random",
        "compression.type": "lz4",
        "linger.ms": 5,  # what a record may wait for others: fewer, larger requests
        "message.max.bytes": MAX_RECORD_BYTES,
        "queue.buffering.max.kbytes": 65_536,
        "logger": _LOG,
    }
    if transactional_id is not None:
        chosen["transactional.id"] = transactional_id
        # A record is not tried for longer than its transaction lives, and readers wait for what a
        # killed producer left open until its successor begins, or this long.
        chosen["transaction.timeout.ms"] = TRANSACTION_SECONDS * 1000
        chosen["delivery.timeout.ms"] = TRANSACTION_SECONDS * 1000
    return chosen | dict(options or {})


def consumer_options(
    settings: Settings, user: str, group: str, options: Options | None = None
) -> dict[str, Any]:
    """Settings of a consumer that commits what was done, when it was done."""
    chosen = {
        **client_options(settings, user),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A group that is new reads what is there; `latest` would miss what came before it joined.
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": 300_000,
        "fetch.message.max.bytes": MAX_RECORD_BYTES,
        # Whatever else is asked of a broker waits behind a fetch: seeks, lag, a pause.
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,  # how soon a regex finds a new topic
        "logger": _LOG,
    }
    changed = dict(options or {})
    if changed.get("group.protocol") != "consumer":  # there the broker decides these
        chosen |= {
            # A rebalance takes away only what another member gets; the rest is read on meanwhile.
            "partition.assignment.strategy": "cooperative-sticky",
            # How long the partitions of a killed member lie idle. Less than a broker needs to come
            # back would make every restart of it a loss of all partitions.
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 3_000,
        }
    return chosen | changed


def opened(make: Callable[[dict[str, Any]], Client], options: dict[str, Any]) -> Client:
    """A client with these settings, or what is wrong with them."""
    try:
        return make(options)
    except KafkaException as error:
        raise UsageError(
            f"librdkafka does not take these options: {error.args[0].str()}.",
            remedy="Its CONFIGURATION.md lists what there is.",
        ) from None
