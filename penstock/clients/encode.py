"""Rows to bytes, in every format a producer can write."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

import fastavro

from penstock.errors import ContractBroken, DefinitionError
from penstock.model.contract import Contract
from penstock.model.contract_protobuf import encode_message
from penstock.model.formats import Avro, Json, Protobuf, Xml

__all__ = ["Encode", "encoder"]

# Takes a row of canonical values, as penstock.model.contract_rows.fit gives it.
Encode = Callable[[Mapping[str, Any]], bytes]

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def encoder(contract: Contract, schema_id: int | None = None) -> Encode:
    """A function from rows to the bytes of one message.

    Args:
        schema_id: the registry's id of the schema; Avro needs it, nothing else has one.
    """
    format_ = contract.format
    if isinstance(format_, Avro):
        if schema_id is None:
            raise DefinitionError(f"{contract.subject} is Avro: encoding needs its schema id.")
        return _avro(contract, schema_id)
    if isinstance(format_, Json):
        return _json
    if isinstance(format_, Xml):
        return _xml(format_.row_tag)
    if isinstance(format_, Protobuf):
        return encode_message(format_)
    raise DefinitionError(
        f"a {format_.word} message is not encoded here.",
        remedy="Send its bytes with send_raw, or write it where it comes from.",
    )


def _avro(contract: Contract, schema_id: int) -> Encode:
    header = b"\x00" + struct.pack(">I", schema_id)
    schema = fastavro.parse_schema(json.loads(contract.schema_json))

    def write(row: Mapping[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, dict(row))
        return header + body.getvalue()

    return write


def _json(row: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(
            _plain(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except ValueError as error:
        raise ContractBroken(f"the row cannot be JSON: {error}.") from None


def _plain(value: Any) -> Any:
    """As JSON and XML write it: decimals and times as text, bytes as base64."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _xml(row_tag: str) -> Encode:
    def write(row: Mapping[str, Any]) -> bytes:
        return _element(row_tag, _plain(row)).encode()

    return write


def _element(tag: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(_element(tag, item) for item in value)
    if isinstance(value, Mapping):
        inner = "".join(_element(name, item) for name, item in value.items())
    elif isinstance(value, bool):
        inner = "true" if value else "false"
    else:
        inner = escape(str(value), {"\r": "&#13;"})
        if _NOT_IN_XML.search(inner):
            raise ContractBroken(f"{tag} holds characters that XML cannot: {str(value)[:80]!r}.")
    return f"<{tag}>{inner}</{tag}>"
