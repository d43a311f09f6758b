"""Records out of a consumer: errors that pass are waited out, others raised in our words."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message

from penstock.clients.commits import Partition
from penstock.errors import PenstockError, PositionLost, ServiceFailed

__all__ = ["Reading", "next_offset", "partition_of"]

# librdkafka gets over these by itself.
_PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._PARTITION_EOF,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}


class Reading:
    """What one consumer gives, in order; nothing it gave is dropped on the way."""

    def __init__(self, kafka: Consumer) -> None:
        self._kafka = kafka
        self._ahead: list[Message] = []  # given by librdkafka, not handed out yet

    def take(self, most: int, timeout: float) -> list[Message]:
        """Up to so many records; an error is raised when the records before it are handed out."""
        given, self._ahead = self._ahead or self._kafka.consume(most, timeout), []
        messages: list[Message] = []
        for place, message in enumerate(given):
            problem = _problem(message)
            if problem is not None and messages:
                self._ahead = given[place:]
                break
            if problem is not None:
                self._ahead = given[place + 1 :]
                raise problem
            if message.error() is None:
                messages.append(message)
        return messages

    def poll(self, timeout: float) -> None:
        """Serve rebalances and heartbeats; what comes although all is paused is kept."""
        message = self._kafka.poll(timeout)
        if message is not None:
            self._ahead.append(message)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget what is kept of these: somebody else reads it, or it will be read again."""
        gone = set(partitions)
        self._ahead = [m for m in self._ahead if m.error() or partition_of(m) not in gone]


def _problem(message: Message) -> PenstockError | None:
    error = message.error()
    if error is None or (error.code() in _PASSING and not error.fatal()):
        return None
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return PositionLost(
            f"{message.topic()}/{message.partition()} has nothing at offset {message.offset()} "
            f"any more: {error.str()}.",
            remedy="Seek to where it should go on, or set auto.offset.reset.",
        )
    return ServiceFailed(
        f"Kafka does not give the records of {message.topic() or 'a topic'}: {error.str()} "
        f"({error.name()}).",
        remedy="Look at `penstock status`, and at what this user may read.",
    )


def partition_of(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0


def next_offset(message: Message) -> int:
    return (message.offset() or 0) + 1
