"""Rows of a live table as Avro or JSON, with schemas made from the table's columns.

Every field may be null and has null as its default, whole numbers are long and others double: so a
column that comes, goes or is widened changes nothing for those who read the topic already.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro

from penstock.errors import DefinitionError
from penstock.serve.snapshot import Column

__all__ = ["Encode", "avro_encoder", "avro_schema_of", "json_encoder", "plain"]

Encode = Callable[[Mapping[str, Any]], bytes]

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[str, Any] = {
    "VARCHAR": "string",
    "BIGINT": "long",
    "INTEGER": "long",
    "SMALLINT": "long",
    "TINYINT": "long",
    "FLOAT": "double",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "BLOB": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIMESTAMP WITH TIME ZONE": {"type": "long", "logicalType": "timestamp-micros"},
    "TIMESTAMP": {"type": "long", "logicalType": "local-timestamp-micros"},
}


# --- Avro ---------------------------------------------------------------------------------------
def avro_schema_of(name: str, columns: Sequence[Column]) -> dict[str, Any]:
    """The record schema of some columns; raises DefinitionError for one that Avro cannot name."""
    record = re.sub(r"[^A-Za-z0-9_]", "_", name)
    fields = [_field(column.name, column.type, record) for column in columns]
    return {"type": "record", "name": record, "namespace": "penstock.out", "fields": fields}


def _field(name: str, type_: str, record: str) -> dict[str, Any]:
    if not _AVRO_NAME.fullmatch(name):
        raise DefinitionError(
            f"column {name!r} cannot be a field of Avro.", remedy="Publish it with format=Json()."
        )
    return {"name": name, "type": ["null", _avro_type(type_, f"{record}_{name}")], "default": None}


def _avro_type(type_: str, name: str) -> Any:
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if type_.endswith("[]"):
        return {"type": "array", "items": ["null", _avro_type(type_[:-2], name)]}
    if type_.startswith("DECIMAL("):
        precision, scale = type_[8:-1].split(",")
        told = {"precision": int(precision), "scale": int(scale)}
        return {"type": "bytes", "logicalType": "decimal", **told}
    if type_.startswith("MAP("):
        key, value = split_types(type_[4:-1])
        if key == "VARCHAR":
            return {"type": "map", "values": ["null", _avro_type(value, name)]}
        fields = [_field("key", key, name), _field("value", value, name)]
        return {"type": "array", "items": {"type": "record", "name": name, "fields": fields}}
    fields = [_field(*_named(part), name) for part in split_types(type_[7:-1])]
    return {"type": "record", "name": name, "fields": fields}


def split_types(text: str) -> list[str]:
    """The parts of a type between commas that are in no bracket and no quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for place, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted and letter in "([":
            depth += 1
        elif not quoted and letter in ")]":
            depth -= 1
        elif letter == "," and not quoted and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _named(part: str) -> tuple[str, str]:
    """The name and the type of a struct's field, as ``serve.snapshot`` writes them."""
    quote = re.match(r'"((?:[^"]|"")*)" ', part)
    assert quote is not None, part  # noqa: S101 - we wrote it
    return quote[1].replace('""', '"'), part[quote.end() :]


def avro_encoder(schema: Mapping[str, Any], schema_id: int, columns: Sequence[Column]) -> Encode:
    """Rows as Avro in Confluent's framing."""
    header = b"\x00" + struct.pack(">I", schema_id)
    parsed = fastavro.parse_schema(dict(schema))
    paired = [column.name for column in columns if "MAP(" in column.type]

    def write(row: Mapping[str, Any]) -> bytes:
        body = io.BytesIO()
        given = {**row, **{n: _as_avro(row[n], t) for n, t in types.items()}} if paired else row
        fastavro.schemaless_writer(body, parsed, dict(given))
        return header + body.getvalue()

    types = {column.name: column.type for column in columns if column.name in paired}
    return write


def _as_avro(value: Any, type_: str) -> Any:
    """Maps whose keys are not text are lists of pairs in Avro; all else is as it is."""
    if value is None:
        return None
    if type_.endswith("[]"):
        return [_as_avro(item, type_[:-2]) for item in value]
    if type_.startswith("MAP("):
        key, inner = split_types(type_[4:-1])
        told = {k: _as_avro(v, inner) for k, v in value.items()}
        return told if key == "VARCHAR" else [{"key": k, "value": v} for k, v in told.items()]
    if type_.startswith("STRUCT("):
        fields = dict(_named(part) for part in split_types(type_[7:-1]))
        return {name: _as_avro(value[name], inner) for name, inner in fields.items()}
    return value


# --- JSON ---------------------------------------------------------------------------------------
def json_encoder() -> Encode:
    """Rows as JSON objects: decimals and times as text, bytes as base64, no number as its name."""

    def write(row: Mapping[str, Any]) -> bytes:
        return json.dumps(
            plain(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()

    return write


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line per kind
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(item) for key, item in value.items()}
        return [{"key": plain(key), "value": plain(item)} for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value
