"""What a net change is in a topic: keys, rows and tombstones, in the format that is declared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.publish.declared import CHANGELOG, Published
from penstock.publish.live import Move, require_keys
from penstock.publish.subjects import ensure_schema
from penstock.publish.values import Encode, avro_encoder, avro_schema_of, json_encoder
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.serve.snapshot import Column

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Record", "Records"]


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    change: str  # insert, update or delete
    headers: Sequence[tuple[str, bytes]] = ()
    memory: str = ""  # what the row is remembered by, where that is needed


class Records:
    """Turns the net changes of one publication into records."""

    def __init__(self, settings: Settings, published: Published) -> None:
        self._published = published
        self._url = settings.registry_url
        self._registry: SchemaRegistry | None = None
        self._columns: tuple[Column, ...] = ()
        self._value: Encode = json_encoder()
        self._key: Encode = json_encoder()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """What the rows that follow have; registers their schema if it is new.

        Raises:
            DefinitionError: a key is gone, or readers of the topic could not read them.
        """
        if tuple(columns) == self._columns:
            return
        require_keys(self._published.table, columns, self._published.keys)
        if self._published.format == "avro":
            self._value = self._avro("value", columns)
            named = {column.name: column for column in columns}
            keys = [named[key] for key in self._published.keys]
            self._key = self._avro("key", keys) if keys else json_encoder()
        self._columns = tuple(columns)

    def _avro(self, part: str, columns: Sequence[Column]) -> Encode:
        if self._registry is None:
            self._registry = SchemaRegistry(self._url)
        topic = self._published.topic
        schema = avro_schema_of(f"{topic}_{part}", columns)
        return avro_encoder(
            schema, ensure_schema(self._registry, f"{topic}-{part}", schema), columns
        )

    def of(self, move: Move) -> Iterator[Record]:
        """The records of one net change."""
        change = _change(move)
        row = move.after if move.after is not None else move.before
        assert row is not None  # noqa: S101 - a net change has one or the other
        key = self._key_of(row)
        if self._published.kind == CHANGELOG:
            yield Record(key, None if move.after is None else self._value(row), change)
            return
        headers = [("penstock-change", change.encode())]
        if self._published.corrections:
            yield Record(key, self._value(row), change, headers)
        else:
            yield Record(key, self._value(row), change, headers, self._memory(row, key))

    def _key_of(self, row: Mapping[str, Any]) -> bytes | None:
        if not self._published.keys:
            return None
        return self._key({name: row[name] for name in self._published.keys})

    def _memory(self, row: Mapping[str, Any], key: bytes | None) -> str:
        """Of a table without keys a row is its own name; as JSON, which no schema id is in.

        Without what is null: a column that comes is null in rows from before it, and they are
        still the same rows.
        """
        told = key
        if told is None:
            told = json_encoder()({n: value for n, value in row.items() if value is not None})
        return hashlib.sha256(told).hexdigest()[:32]


def _change(move: Move) -> str:
    if move.before is None:
        return "insert"
    return "delete" if move.after is None else "update"
