"""A producer for a stream: checked by contract, keyed, idempotent, acknowledged by all replicas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from penstock.clients.encode import Encode, encoder
from penstock.errors import ContractBroken
from penstock.model.contract_rows import Problem, broken_rules, event_time_of, fit
from penstock.model.stream import Stream
from penstock.runtime.kafka import MAX_RECORD_BYTES, client_options
from penstock.runtime.subjects import ensure_subjects
from penstock.settings import Settings

__all__ = ["StreamProducer"]


class StreamProducer:
    """Sends rows of one stream; the event time travels as the record's CreateTime.

    Example:
        >>> producer = StreamProducer(Settings.load(), TRADES, user="demo-producer")
        >>> producer.send("ACME", {"ticker": "ACME", ...}, at=datetime.now(UTC))
        >>> producer.flush()
    """

    def __init__(self, settings: Settings, stream: Stream, *, user: str) -> None:
        self.stream = stream
        self.failed = 0
        self.schema_id: int | None = None
        if stream.contract.format.registered:
            self.schema_id = ensure_subjects(settings, [stream])[stream.contract.subject]
        self._encode: Encode | None = None
        self._producer = Producer(
            {
                **client_options(settings, user),
                "enable.idempotence": True,
                "acks": "all",
                # Java's partitioner, so that keys land where Kafka's own clients put them.
                "partitioner": "murmur2_random",
                "message.max.bytes": MAX_RECORD_BYTES,
                "linger.ms": 5,
                "compression.type": "lz4",
            }
        )

    def encode(self, row: Mapping[str, Any]) -> bytes:
        """The row as bytes, if its types fit; its rules are for `send` to check."""
        return self._bytes(self._fitted(row))

    def send(
        self,
        key: str,
        row: Mapping[str, Any],
        *,
        at: dt.datetime,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        """Send a row that keeps its contract; raises ContractBroken for any other.

        Bad rows on purpose: ``send_raw(key, encode(row), at=at)``.
        """
        fitted = self._fitted(row)
        now = dt.datetime.now(dt.UTC)
        time = event_time_of(self.stream, fitted, at, now)
        problems = broken_rules(self.stream.contract, fitted, time, now)
        if problems:
            raise _broken(self.stream, problems)
        self.send_raw(key.encode(), self._bytes(fitted), at=at, on_delivery=on_delivery)

    def _fitted(self, row: Mapping[str, Any]) -> dict[str, Any]:
        verdict = fit(self.stream.contract, row)
        if verdict.row is None:
            raise _broken(self.stream, verdict.problems)
        return verdict.row

    def _bytes(self, fitted: Mapping[str, Any]) -> bytes:
        if self._encode is None:
            self._encode = encoder(self.stream.contract, self.schema_id)
        return self._encode(fitted)

    def send_raw(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        at: dt.datetime,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        """Bytes as they are, for tests and demos of what happens to bad ones."""
        stamp = int(at.timestamp() * 1000)
        told = on_delivery or self._count_failure
        while True:
            try:
                self._producer.produce(
                    self.stream.topic, value, key, timestamp=stamp, on_delivery=told
                )
            except BufferError:  # the queue is full: let some of it go out
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def flush(self, timeout: float = 30.0) -> int:
        """Wait until everything is acknowledged; returns how many were not, and never will be."""
        return int(self._producer.flush(timeout)) + self.failed

    def _count_failure(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None


def _broken(stream: Stream, problems: list[Problem]) -> ContractBroken:
    return ContractBroken(
        f"a row for {stream.topic} breaks the contract of {stream.name}: "
        f"{'; '.join(map(str, problems))}.",
        remedy="It was not sent. Mend the row where it is made.",
    )
