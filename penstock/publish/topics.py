"""The topics that are published to: made when they are not there, and read back whole.

The publisher makes them itself. It may do so because its rights end at their prefix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.clients.options import consumer_options
from penstock.errors import ServiceFailed
from penstock.publish.declared import CHANGELOG, Published
from penstock.runtime.kafka import client_options

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["USER", "Topics", "read_whole"]

USER = "publisher"
_TIMEOUT = 30.0
_GROUP = "penstock-publisher"  # librdkafka wants one; nothing is committed under it
_COMPACT = {"cleanup.policy": "compact"}
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def _quiet(*_: Any) -> None:
    """Swallow librdkafka's own complaints: a broker that is away is told by the answers."""


class Topics:
    """Makes topics and tells their ids."""

    def __init__(self, settings: Settings) -> None:
        self._bootstrap = settings.kafka_bootstrap
        self._admin = AdminClient(
            client_options(settings, USER) | {"log_level": 0, "error_cb": _quiet}
        )

    def ensure(self, published: Published) -> str:
        """The id of a publication's topic, which is made if it is not there."""
        config = dict(_COMPACT)
        if published.kind != CHANGELOG:
            config = {"retention.ms": str(published.retention_ms)}
        return self.made(published.topic, published.partitions, config)

    def made(self, name: str, partitions: int, config: dict[str, str] | None = None) -> str:
        """The id of a topic, which is made if it is not there; by default a compacted one."""
        found = self.id_of(name)
        if found is not None:
            return found
        # -1: as many copies as the broker makes by default.
        new = NewTopic(name, partitions, -1, config=_COMPACT if config is None else config)
        try:
            self._admin.create_topics([new])[name].result(_TIMEOUT)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ServiceFailed(
                    f"Kafka at {self._bootstrap} does not make topic {name}: "
                    f"{error.args[0].str()}.",
                    remedy="Look at `penstock status`, and at what the publisher may do.",
                ) from None
        deadline = time.monotonic() + _TIMEOUT
        while (found := self.id_of(name)) is None:
            if time.monotonic() > deadline:
                raise ServiceFailed(f"Kafka does not tell about topic {name}, which was made.")
            time.sleep(0.1)
        return found

    def id_of(self, name: str) -> str | None:
        """A recreated topic has another one; None: there is no such topic."""
        try:
            asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT)
            return str(asked[name].result().topic_id)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return None
            raise ServiceFailed(
                f"Kafka at {self._bootstrap} does not tell about topic {name}: "
                f"{error.args[0].str()}.",
                remedy="Look at `penstock status`, and at what the publisher may do.",
            ) from None


def read_whole(settings: Settings, topic: str) -> Iterator[Message]:
    """Every committed record of a topic from its beginning to its present end, by partition.

    Raises:
        ServiceFailed: the broker does not give them.
    """
    options = {"enable.partition.eof": True, "error_cb": _quiet}
    kafka = Consumer(consumer_options(settings, USER, _GROUP, options))
    try:
        told = kafka.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        if told.error is not None:
            raise KafkaException(told.error)
        open_ = set(told.partitions)
        kafka.assign([TopicPartition(topic, number, 0) for number in open_])
        deadline = time.monotonic() + _TIMEOUT
        while open_:
            message = kafka.poll(1.0)
            if message is None:
                if time.monotonic() > deadline:
                    raise ServiceFailed(f"topic {topic} does not come to an end.")
                continue
            error = message.error()
            if error is None:
                deadline = time.monotonic() + _TIMEOUT
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                open_.discard(message.partition())
            elif error.fatal() or not error.retriable():
                raise KafkaException(error)
    except KafkaException as error:
        raise ServiceFailed(
            f"Kafka does not give the records of {topic}: {error.args[0].str()}.",
            remedy="Look at `penstock status`, and at what the publisher may read.",
        ) from None
    finally:
        kafka.close()
