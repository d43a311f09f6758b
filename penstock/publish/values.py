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
    types = {c.name: c.type for c in columns if any(word in c.type for word in _TOLD_OTHERWISE)}

    def write(row: Mapping[str, Any]) -> bytes:
        body = io.BytesIO()
        given = {**row, **{n: _as_avro(row[n], t) for n, t in types.items()}} if types else row
        fastavro.schemaless_writer(body, parsed, dict(given))
        return header + body.getvalue()

    return write


_TOLD_OTHERWISE = ("MAP(", "TIMESTAMP", "DATE")  # types of which Avro may want another value


def _as_avro(value: Any, type_: str) -> Any:
    """Maps whose keys are not text are lists of pairs in Avro, times that Python has no words for
    are numbers; all else is as it is."""
    if value is None:
        return None
    if isinstance(value, str):
        return value if type_ == "VARCHAR" else far_time(value, type_)
    if type_.endswith("[]"):
        return [_as_avro(item, type_[:-2]) for item in value]
    if type_.startswith("MAP("):
        key, inner = split_types(type_[4:-1])
        told = [(_as_avro(k, key), _as_avro(v, inner)) for k, v in value.items()]
        return dict(told) if key == "VARCHAR" else [{"key": k, "value": v} for k, v in told]
    if type_.startswith("STRUCT("):
        fields = dict(_named(part) for part in split_types(type_[7:-1]))
        return {name: _as_avro(value[name], inner) for name, inner in fields.items()}
    return value


# --- times that Python cannot hold ----------------------------------------------------------------
_FAR = re.compile(
    r"(?P<year>\d+)-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?"
    r"(?: (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?)?(?:\+00)?"
)
_FOUR_CENTURIES = 146_097  # days, always


def far_time(text: str, type_: str) -> int:
    """Days or microseconds since 1970 of a time before the year 1 or after 9999.

    DuckDB gives those as text, because Python's own times end there. Avro's do not.
    """
    found = _FAR.fullmatch(text)
    if found is None:
        raise DefinitionError(
            f"{text[:40]!r} is no time that Avro could hold.",
            remedy="Publish it with format=Json().",
        )
    told = {name: int(value) for name, value in found.groupdict("0").items() if name not in _WORDS}
    year = 1 - told["year"] if found["bc"] else told["year"]
    cycles, year = divmod(year - 1, 400)  # the calendar repeats itself
    near = dt.date(year + 1, told["month"], told["day"]).toordinal() - _EPOCH
    days = near + cycles * _FOUR_CENTURIES
    if type_ == "DATE":
        return days
    seconds = days * 86_400 + told["hour"] * 3600 + told["minute"] * 60 + told["second"]
    return seconds * 1_000_000 + int((found["part"] or "").ljust(6, "0"))


_WORDS = ("bc", "part")
_EPOCH = dt.date(1970, 1, 1).toordinal()


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
