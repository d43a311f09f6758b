"""A producer for a stream: Avro by contract, keyed, idempotent, acknowledged by all replicas."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
from confluent_kafka import KafkaError, Message, Producer

from penstock.model.stream import Stream
from penstock.runtime.kafka import MAX_RECORD_BYTES, client_options
from penstock.runtime.schemas import SchemaRegistry
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
        schema = stream.contract.schema_json
        schemas = SchemaRegistry(settings.registry_url)
        self.schema_id = schemas.register(stream.contract.subject, schema)
        self._header = b"\x00" + struct.pack(">I", self.schema_id)
        self._schema = fastavro.parse_schema(json.loads(schema))
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
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, dict(row))
        return self._header + body.getvalue()

    def send(
        self,
        key: str,
        row: Mapping[str, Any],
        *,
        at: dt.datetime,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        self.send_raw(key.encode(), self.encode(row), at=at, on_delivery=on_delivery)

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
