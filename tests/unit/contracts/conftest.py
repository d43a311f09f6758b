"""A bronze frame out of messages, and a contract that uses most types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.model import Contract, stream
from penstock.runtime.decode.expression import decode, transform_input
from penstock.runtime.ingest.bronze import bronze_schema

NOW = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}


def record(*fields: Any) -> dict[str, Any]:
    """A record schema from (name, type) or (name, type, default)."""
    return {
        "type": "record",
        "name": "Row",
        "namespace": "tests",
        "fields": [
            {"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})}
            for f in fields
        ],
    }


def declared(schema: dict[str, Any], format_: Any = None, **more: Any) -> Any:
    options = {} if format_ is None else {"format": format_}
    contract = Contract("x-value", schema, more.pop("rules", ()), **options)
    return stream("bronze.x", topic="x", contract=contract, **more)


def bronze_rows(values: list[bytes | None], **columns: Any) -> pa.Table:
    rows = [
        {
            "key": b"k",
            "value": value,
            "cluster_id": "c",
            "topic": "x",
            "topic_id": "t",
            "partition": 0,
            "offset": number,
            "timestamp": NOW,
            "timestamp_type": 0,
            "ingested_at": NOW,
            **columns,
        }
        for number, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, bronze_schema()).drop_columns("headers")


@pytest.fixture
def decoded(spark) -> Callable[..., tuple[list[Any], list[Any]]]:
    """Both sides of a stream's messages: what was decoded, and what a transform would see."""

    def run(of: Any, values: list[bytes | None], writers: Any = None, **columns: Any):
        frame = decode(spark.createDataFrame(bronze_rows(values, **columns)), of, writers or {})
        judged = frame.select("offset", "error_class", "error", "skipped", "event_time")
        good = transform_input(frame, of)
        return (
            sorted(judged.toArrow().to_pylist(), key=lambda row: row["offset"]),
            sorted(good.toArrow().to_pylist(), key=lambda row: row["_offset"]),
        )

    return run
