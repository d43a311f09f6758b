"""Rows as their producers would put them on the wire, written without the engine's clients."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import fastavro

from tests.oracles import Row

__all__ = ["avro_bytes", "debezium_bytes", "json_bytes"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def avro_bytes(row: Row, schema: dict[str, Any], schema_id: int = 1) -> bytes:
    """Confluent's framing: a zero byte, four bytes of schema id, the body."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def json_bytes(row: Row) -> bytes:
    """Times as ISO 8601."""
    return json.dumps(row, default=_text).encode()


def debezium_bytes(change: Row) -> bytes:
    """A change of users as Debezium tells it, from its columns and ``_op``, ``_lsn`` and so on."""
    row = {name: value for name, value in change.items() if not name.startswith("_")}
    op = change["_op"]
    micros = (change["_committed_at"] - _EPOCH) // dt.timedelta(microseconds=1)
    event = {
        "before": row if op in ("u", "d") else None,
        "after": row if op in ("c", "u", "r") else None,
        "source": {"lsn": change["_lsn"], "ts_ms": micros // 1000, "ts_us": micros},
        "op": op,
    }
    return json.dumps(event, default=_text).encode()


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"no text for {value!r}")
