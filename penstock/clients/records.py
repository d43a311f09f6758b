"""A producer of bytes: confluent-kafka's, with safe defaults and the pieces it leaves to others.

**What it adds.** A full buffer makes `send` wait, up to a bound; what is not delivered in the end
is kept in a file; fatal errors are told apart; keys can be given partitions of our choosing;
transactions are a `with`. Everything else is confluent-kafka's own: `.kafka`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.clients.errors_file import ErrorsFile, Record, kind_of
from penstock.clients.options import Options, opened, producer_options
from penstock.clients.partition import Partitioner
from penstock.clients.transaction import Transactions
from penstock.errors import DeliveryFailed, ProducerUnusable, ServiceFailed, UsageError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.clients.group import GroupConsumer

__all__ = ["OnDelivery", "RecordProducer"]

OnDelivery = Callable[[KafkaError | None, Message], None]

_COUNTED_FOR = 300.0  # seconds until the number of a topic's partitions is asked again


class RecordProducer:
    """Sends records: `send` and forget, `send` with a callback, or `send_and_wait`.

    Args:
        transactional_id: makes `transaction()` usable; one name per running producer, the same
            after a restart: that is how what the old one left open is aborted.
        partitioner: instead of librdkafka's murmur2, see penstock.clients.partition.
        errors_file: where undelivered records go; by default the user's in the stack's home.
        buffer_wait: seconds that `send` waits for room in a full buffer.
        options: librdkafka's settings, over those of penstock.clients.options.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        user: str,
        transactional_id: str | None = None,
        partitioner: Partitioner | None = None,
        errors_file: Path | None = None,
        buffer_wait: float = 60.0,
        options: Options | None = None,
    ) -> None:
        self.failed = 0  # records that were not delivered and never will be
        self.errors = ErrorsFile(errors_file or settings.home / "undelivered" / f"{user}.jsonl")
        self._bootstrap = settings.kafka_bootstrap
        self._partitioner = partitioner
        self._buffer_wait = buffer_wait
        self._fatal: KafkaError | None = None
        self._partitions: dict[str, tuple[int, float]] = {}
        chosen = producer_options(
            settings, user, transactional_id=transactional_id, options=options
        )
        self.kafka = opened(Producer, {"error_cb": self._noticed, **chosen})
        self._transactions = Transactions(self.kafka, transactional_id)

    # --- sending ----------------------------------------------------------------------------------
    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        at: dt.datetime | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Hand a record over; it is on its way when this returns.

        ``on_delivery(error, message)`` is called within a later `send`, `poll` or `flush`, in the
        order of each partition. Called or not, a record that fails is kept in the errors file.
        """
        record = self._record(topic, value, key, headers, at)
        self._hand_over(record, partial(self._settled, record, on_delivery))

    def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        at: dt.datetime | None = None,
    ) -> Message:
        """Send one record and wait for it: slow, and sure. Raises DeliveryFailed."""
        answers: list[tuple[KafkaError | None, Message]] = []
        record = self._record(topic, value, key, headers, at)
        self._hand_over(record, lambda error, message: answers.append((error, message)))
        while not answers:  # librdkafka answers for every record, at the latest when it gives up
            self.kafka.poll(0.1)
        error, message = answers[0]
        if error is not None:
            raise _undelivered(record, error)
        return message

    def _record(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        at: dt.datetime | None,
    ) -> Record:
        partition = -1
        if self._partitioner is not None:
            chosen = self._partitioner(key, self._count(topic))
            partition = -1 if chosen is None else chosen
        stamp = int(at.timestamp() * 1000) if at is not None else 0
        return Record(topic, value, key, headers, stamp, partition)

    def _hand_over(self, record: Record, answered: OnDelivery) -> None:
        deadline: float | None = None
        while True:
            if self._fatal is not None:
                raise _unusable(self._fatal)
            try:
                self.kafka.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=[*record.headers] or None,
                    on_delivery=answered,
                )
                break
            except BufferError:
                deadline = deadline or time.monotonic() + self._buffer_wait
                self._wait_for_room(record, deadline)
            except KafkaException as error:
                self._noticed(error.args[0])
                if self._fatal is None:
                    raise _undelivered(record, error.args[0]) from None
        self.kafka.poll(0)

    def _wait_for_room(self, record: Record, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ServiceFailed(
                f"the send buffer has been full for {self._buffer_wait:g} s ({len(self.kafka)} "
                f"records wait for {self._bootstrap}); a record for {record.topic} was not sent.",
                remedy="Look at `penstock status`: the broker is away or too slow. Send less, or "
                "raise queue.buffering.max.kbytes.",
            )
        self.kafka.poll(min(0.1, left))

    def _count(self, topic: str) -> int:
        known, asked = self._partitions.get(topic, (0, -_COUNTED_FOR))
        if time.monotonic() - asked > _COUNTED_FOR:
            try:
                found = self.kafka.list_topics(topic, timeout=30).topics[topic]
            except KafkaException as error:
                raise self._silent(topic, error.args[0]) from None
            if found.error is not None:
                raise self._silent(topic, found.error)
            known = len(found.partitions)
            self._partitions[topic] = (known, time.monotonic())
        return known

    # --- what became of it ------------------------------------------------------------------------
    def _settled(
        self,
        record: Record,
        told: OnDelivery | None,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        # What an aborted transaction takes back is its owner's to do again: they get the exception.
        if error is not None and not self._transactions.named:
            self.failed += 1
            self.errors.keep(record, error)
        if told is not None:
            told(error, message)

    def _noticed(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _silent(self, topic: str, error: KafkaError) -> ServiceFailed:
        return ServiceFailed(
            f"Kafka at {self._bootstrap} does not tell about topic {topic}: {error.str()}.",
            remedy="Look at `penstock status`; `penstock register` makes the topics of streams.",
        )

    # --- finishing --------------------------------------------------------------------------------
    def poll(self, timeout: float = 0.0) -> None:
        """Let callbacks run; for a program that sends nothing for a while."""
        self.kafka.poll(timeout)

    def flush(self, timeout: float = 30.0) -> int:
        """Wait until everything is acknowledged; returns how many are not, or never will be."""
        return int(self.kafka.flush(timeout)) + self.failed

    def close(self, timeout: float = 30.0) -> int:
        """Flush; what still waits then goes to the errors file. Returns how many failed in all."""
        if self.kafka.flush(timeout):
            self.kafka.purge()
            self.kafka.flush(1.0)
        return self.failed

    def __enter__(self) -> RecordProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resend(self, timeout: float = 60.0) -> int:
        """Send what the errors file holds; returns how many were delivered. The rest is kept anew.

        In the order they failed, which is not always the order they were sent in; a line marked
        ``perhaps_written`` may thereby be in the topic twice, and so may all of them if the program
        is killed meanwhile.
        """
        if self._transactions.named:
            raise UsageError(
                "a producer with a transactional id does not send records again by itself.",
                remedy="Use one without, on the same errors file.",
            )
        aside = self.errors.set_aside()
        before, count = self.failed, 0
        for record in aside.records():
            self._hand_over(record, partial(self._settled, record, None))
            count += 1
        self.close(timeout)
        aside.path.unlink(missing_ok=True)
        return count - (self.failed - before)

    # --- transactions -----------------------------------------------------------------------------
    def transaction(self, consumer: GroupConsumer | None = None) -> AbstractContextManager[None]:
        """Everything sent within counts together, or not at all.

        With a consumer, what it has `done` is committed in the same transaction, and a transaction
        that fails takes it back to where it began: read, process, write, exactly once.
        """
        if not self._transactions.named:
            raise UsageError(
                "this producer has no transactional id.",
                remedy='Make it with transactional_id="app-…", a name of its own.',
            )
        return self._transactions.within(consumer)


def _unusable(error: KafkaError) -> ProducerUnusable:
    return ProducerUnusable(
        f"this producer is done for: {error.str()} ({error.name()}).",
        remedy="Make a new one. Fenced means that another runs under the same transactional id: "
        "only one of the two may.",
    )


def _undelivered(record: Record, error: KafkaError) -> DeliveryFailed:
    remedies = {
        "retriable": "Send it again when the broker answers (`penstock status`).",
        "refused": "It will be refused again as it is: mend the record, or the user's rights.",
        "fatal": "Make a new producer and send it again.",
    }
    return DeliveryFailed(
        f"a record for {record.topic} was not delivered: {error.str()} ({error.name()}).",
        remedy=remedies[kind_of(error)],
    )
