"""What is in a published topic, read without our clients: committed records, decoded by hand."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import httpx
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from penstock.runtime.kafka import client_options
from penstock.settings import Settings


@dataclass(frozen=True)
class Sent:
    key: Any
    row: dict[str, Any] | None
    headers: dict[str, str]
    raw: bytes | None


class Oracle:
    """Reads topics as the admin, who may read all."""

    def __init__(self, at: Settings) -> None:
        self._at = at
        self._schemas: dict[int, Any] = {}

    def records(self, topic: str) -> list[Sent]:
        """All committed records, partition by partition."""
        options = {"group.id": "unused", "enable.partition.eof": True, "enable.auto.commit": False,
                   "isolation.level": "read_committed"}  # fmt: skip
        consumer = Consumer(client_options(self._at, "admin") | options)
        found = []
        try:
            told = consumer.list_topics(topic, timeout=30).topics[topic]
            assert told.error is None, told.error
            open_ = set(told.partitions)
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
        return [
            Sent(
                _frozen(self._decoded(m.key())),
                self._decoded(m.value()),
                {name: value.decode() for name, value in m.headers() or ()},
                m.value(),
            )
            for m in sorted(found, key=lambda m: (m.partition(), m.offset()))
        ]

    def _decoded(self, body: bytes | None) -> Any:
        if body is None:
            return None
        if body[:1] != b"\0":
            return json.loads(body)
        (number,) = struct.unpack(">I", body[1:5])
        if number not in self._schemas:
            told = httpx.get(f"{self._at.registry_url}/schemas/ids/{number}").json()["schema"]
            self._schemas[number] = fastavro.parse_schema(json.loads(told))
        return fastavro.schemaless_reader(io.BytesIO(body[5:]), self._schemas[number])

    def state(self, topic: str, schema: pa.Schema, *, repeats: bool = False) -> Counter[str]:
        """The table a reader of a changelog has in the end; fails on what is said twice."""
        rows: dict[Any, Sent] = {}
        for sent in self.records(topic):
            before = rows.get(sent.key)
            if not repeats:
                assert sent.raw != (before.raw if before else None), f"said again: {sent}"
            if sent.row is None:
                rows.pop(sent.key, None)
            else:
                rows[sent.key] = sent
        return Counter(shown(sent.row or {}, schema) for sent in rows.values())


def table_state(rows: pa.Table) -> Counter[str]:
    """The same of a table."""
    return Counter(shown(row, rows.schema) for row in rows.to_pylist())


def shown(row: dict[str, Any], schema: pa.Schema) -> str:
    """A row in the columns of a schema, as text; what is not there is null."""
    return repr([(field.name, _plain(row.get(field.name), field.type)) for field in schema])


def _plain(value: Any, type_: pa.DataType) -> Any:
    """One spelling for what Avro, JSON and Arrow hand out."""
    if value is None:
        return None
    if pa.types.is_floating(type_):
        return repr(float(value))
    if pa.types.is_integer(type_):
        return int(value)
    if pa.types.is_string(type_):
        return str(value)
    if pa.types.is_decimal(type_):
        return str(Decimal(value).quantize(Decimal(1).scaleb(-type_.scale)))
    if pa.types.is_timestamp(type_):
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(dt.UTC).isoformat()
    if pa.types.is_date(type_):
        return value if isinstance(value, str) else value.isoformat()
    if pa.types.is_binary(type_):
        import base64

        return (base64.b64decode(value) if isinstance(value, str) else bytes(value)).hex()
    if pa.types.is_list(type_):
        return [_plain(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return [(f.name, _plain(value.get(f.name), f.type)) for f in type_]
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, dict) else value
        return sorted((k, _plain(v, type_.item_type)) for k, v in pairs)
    return value


def _frozen(key: Any) -> Any:
    return tuple(sorted(key.items())) if isinstance(key, dict) else key
