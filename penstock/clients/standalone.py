"""All partitions of some topics for one reader, without a group: nobody to share with or wait for.

Assigned partitions are not followed by the broker, so whoever adds some to a topic would be read
by nobody. This looks now and then, and reads new ones from their beginning. Where it is read from
is the reader's to remember (ResultsTable), or to say each time (at_time, at_offsets).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from penstock.clients.commits import Partition
from penstock.clients.options import Options, consumer_options, opened
from penstock.clients.places import Start, lag
from penstock.clients.reading import Reading
from penstock.errors import ServiceFailed
from penstock.settings import Settings

__all__ = ["StandaloneConsumer"]


class StandaloneConsumer:
    """Reads every partition of some topics.

    Args:
        name: what librdkafka wants as a group; nothing is committed under it.
        start: where the partitions of the beginning begin; without it, at their first record.
        look_every: seconds between two looks for new partitions.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        topics: Iterable[str],
        *,
        user: str,
        start: Start | None = None,
        look_every: float = 30.0,
        options: Options | None = None,
    ) -> None:
        self.kafka = opened(Consumer, consumer_options(settings, user, name, options))
        self._bootstrap = settings.kafka_bootstrap
        self._topics = list(topics)
        self._reading = Reading(self.kafka)
        self._assigned: set[Partition] = set()
        self._look_every = look_every
        self._looked = 0.0
        self._add(self._unknown(), start)

    def consume(self, most: int = 500, timeout: float = 1.0) -> list[Message]:
        """Up to so many records, of new partitions too."""
        if time.monotonic() - self._looked > self._look_every:
            try:
                self._add(self._unknown(), None)
            except ServiceFailed:  # the broker is away: reading waits too, look again later
                self._looked = time.monotonic()
        return self._reading.take(most, timeout)

    def _unknown(self) -> list[TopicPartition]:
        found = []
        for topic in self._topics:
            try:
                told = self.kafka.list_topics(topic, timeout=10).topics[topic]
            except KafkaException as error:
                raise self._silent(topic, error.args[0].str()) from None
            if told.error is not None:
                raise self._silent(topic, told.error.str())
            found += [TopicPartition(topic, number, OFFSET_BEGINNING) for number in told.partitions]
        self._looked = time.monotonic()
        return [part for part in found if (part.topic, part.partition) not in self._assigned]

    def _add(self, partitions: list[TopicPartition], start: Start | None) -> None:
        if partitions:
            placed = start(self.kafka, partitions) if start is not None else partitions
            self.kafka.incremental_assign(placed)
            self._assigned |= {(part.topic, part.partition) for part in partitions}

    def _silent(self, topic: str, why: str) -> ServiceFailed:
        return ServiceFailed(
            f"Kafka at {self._bootstrap} does not tell about topic {topic}: {why}.",
            remedy="Look at `penstock status`, and at what this user may read.",
        )

    def lag(self) -> dict[Partition, int]:
        """How far each partition is behind its end."""
        return lag(self.kafka)

    def close(self) -> None:
        self.kafka.close()

    def __enter__(self) -> StandaloneConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
