"""Quarantine: rows that break a contract or a transform, with everything needed to try again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.runtime.decode.expression import ErrorClass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "SCHEMA",
    "broken_bronze_rows",
    "broken_rows",
    "condemned",
    "condemned_columns",
    "ids_of",
    "is_bronze",
    "row_id",
    "sound",
]

_STAMP = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("row_id", pa.string()),  # coordinates of a bronze row, a digest of any other
        ("source", pa.string()),  # the table the row came from
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("schema_id", pa.int64()),
        ("error_class", pa.string()),
        ("error", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),  # the raw bytes, or the row as JSON where it had none
        ("event_time", _STAMP),
        ("ingested_at", _STAMP),
    ]
)


def condemned(decoded: DataFrame, source: str) -> DataFrame:
    """The decoded rows that broke their contract, in the quarantine's columns."""
    return decoded.where(F.col("error_class").isNotNull()).select(*condemned_columns(source))


def condemned_columns(source: str) -> list[Column]:
    """The quarantine's columns of a decoded row."""
    made = {
        "row_id": F.concat_ws("/", "topic", "topic_id", "partition", "offset"),
        "source": F.lit(source),
        "event_time": F.coalesce("event_time", "timestamp"),
    }
    return [made.get(name, F.col(name)).alias(name) for name in SCHEMA.names]


def broken_bronze_rows(source: str, rows: pa.Table, errors: list[str]) -> pa.Table:
    """Bronze rows whose contract held but which broke the transform, one error each."""
    listed = [
        {
            "row_id": f"{row['topic']}/{row['topic_id']}/{row['partition']}/{row['offset']}",
            "source": source,
            "schema_id": _schema_id(row["value"]),
            "error_class": ErrorClass.TRANSFORM.value,
            "error": error,
            "event_time": row["timestamp"],
            **{name: row[name] for name in _KEPT},
        }
        for row, error in zip(rows.to_pylist(), errors, strict=True)
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def _schema_id(value: bytes | None) -> int | None:
    framed = value is not None and len(value) >= 5 and value[0] == 0
    return int.from_bytes(value[1:5], "big") if framed and value else None


_KEPT = ("topic", "partition", "offset", "key", "value", "ingested_at")


def broken_rows(source: str, rows: pa.Table, errors: list[str]) -> pa.Table:
    """Typed rows that broke a transform, one error each."""
    listed = [
        {
            "row_id": row_id(row),
            "source": source,
            "error_class": ErrorClass.TRANSFORM.value,
            "error": error,
            "value": _as_json(row).encode(),
        }
        for row, error in zip(rows.to_pylist(), errors, strict=True)
    ]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def is_bronze(schema: pa.Schema) -> bool:
    """True for rows of a topic, which are named by their place in it."""
    return "topic_id" in schema.names and "offset" in schema.names


def ids_of(rows: pa.Table) -> list[str]:
    """The ids under which rows of an input would be in quarantine."""
    if is_bronze(rows.schema):
        places = rows.select(["topic", "topic_id", "partition", "offset"]).to_pylist()
        return ["/".join(str(part) for part in place.values()) for place in places]
    return [row_id(row) for row in rows.to_pylist()]


def row_id(row: dict[str, Any]) -> str:
    """A digest that names a typed row by its contents."""
    return hashlib.sha256(_as_json(row).encode()).hexdigest()[:32]


def _as_json(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)


def sound(rows: pa.Table, condemned: set[str]) -> pa.Table:
    """The rows that are not in quarantine."""
    if not condemned or rows.num_rows == 0:
        return rows
    keep = [name not in condemned for name in ids_of(rows)]
    return rows.filter(pa.array(keep, pa.bool_()))
