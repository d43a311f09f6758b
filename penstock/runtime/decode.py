"""From bytes to typed rows or to quarantine: a contract compiled into one Spark expression.

Nothing here raises on bad data. Every row comes out with either a decoded payload or an error
class; which of the two is decided in the same pass, so guarding costs no second look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from penstock.model.contract import Matches, OneOf, PlausibleTime, Range, Rule
from penstock.model.stream import EventTime, Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ErrorClass", "decode", "transform_input"]

# A field the writer never has and the reader defaults to true: null means the bytes did not decode.
_DECODED = "_decoded"


class ErrorClass(StrEnum):
    """Why a row is in quarantine."""

    NULL_VALUE = "null_value"
    BAD_FRAME = "bad_frame"  # not magic byte 0 + four bytes of schema id + a body
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    CONTRACT = "contract"
    TRANSFORM = "transform_error"


def decode(bronze: DataFrame, stream: Stream, writers: Mapping[int, str]) -> DataFrame:
    """Bronze rows plus ``schema_id``, ``payload``, ``event_time``, ``error_class`` and ``error``.

    Args:
        writers: the writer schemas known so far, by registry id; other ids come out as
            ``unknown_schema`` and it is the caller's part to look them up and plan again.
    """
    framed = (F.length("value") >= 5) & (F.substring("value", 1, 1) == F.lit(b"\x00"))
    with_id = bronze.withColumn(
        "schema_id",
        F.when(framed, F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("long")),
    )
    decoded = with_id.withColumn("payload", _payload(stream, writers))
    timed = decoded.withColumn("event_time", _event_time(stream))
    known = F.col("schema_id").isin([int(i) for i in writers]) if writers else F.lit(False)
    rule = _first_broken(stream)
    error_class = (
        F.when(F.col("value").isNull(), ErrorClass.NULL_VALUE.value)
        .when(F.col("schema_id").isNull(), ErrorClass.BAD_FRAME.value)
        .when(~known, ErrorClass.UNKNOWN_SCHEMA.value)
        .when(F.col(f"payload.{_DECODED}").isNull(), ErrorClass.UNDECODABLE.value)
        .when(rule.isNotNull(), ErrorClass.CONTRACT.value)
    )
    return timed.withColumn("error_class", error_class).withColumn(
        "error",
        F.when(
            F.col("error_class") == ErrorClass.UNKNOWN_SCHEMA.value,
            F.concat(F.lit("schema id "), F.col("schema_id").cast("string")),
        ).when(F.col("error_class") == ErrorClass.CONTRACT.value, rule),
    )


def transform_input(decoded: DataFrame, stream: Stream) -> DataFrame:
    """What a definition on a stream sees: the payload's fields, the event time, the coordinates."""
    return decoded.where(F.col("error_class").isNull()).select(
        *(F.col(f"payload.{name}").alias(name) for name in stream.contract.columns),
        *([] if "event_time" in stream.contract.columns else ["event_time"]),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("ingested_at").alias("_ingested_at"),
    )


def _payload(stream: Stream, writers: Mapping[int, str]) -> Column:
    reader = json.loads(stream.contract.schema_json)
    reader["fields"].append({"name": _DECODED, "type": "boolean", "default": True})
    reader_json = json.dumps(reader)
    body = F.expr("substring(value, 6)")

    def read(writer: str) -> Column:
        return from_avro(body, writer, {"mode": "PERMISSIVE", "avroSchema": reader_json})

    # With no writer known yet the column still needs its type: read nothing with our own schema.
    column = F.when(F.lit(False), read(stream.contract.schema_json))
    for schema_id, writer in sorted(writers.items()):
        column = column.when(F.col("schema_id") == int(schema_id), read(writer))
    return column


def _event_time(stream: Stream) -> Column:
    if stream.event_time == EventTime.RECORD:
        return F.col("timestamp")
    if stream.event_time == EventTime.INGEST:
        return F.col("ingested_at")
    return F.col(f"payload.{stream.event_time_field}")


def _first_broken(stream: Stream) -> Column:
    """The name of the first rule a row breaks, or null."""
    rules = stream.contract.rules
    if not rules:
        return F.lit(None).cast("string")
    return reduce(
        lambda column, rule: column.when(_broken(rule), rule.name),
        rules[1:],
        F.when(_broken(rules[0]), rules[0].name),
    )


def _broken(rule: Rule) -> Column:
    """True where the row breaks the rule; null in an optional field breaks nothing."""
    if isinstance(rule, PlausibleTime):
        earliest = F.col("ingested_at") - F.expr(f"interval {rule.past}")
        latest = F.col("ingested_at") + F.expr(f"interval {rule.future}")
        time = F.col("event_time")
        return time.isNull() | (time < earliest) | (time > latest)
    column = F.col(f"payload.{rule.column}")
    if isinstance(rule, Range):
        below = column < F.lit(rule.minimum) if rule.minimum is not None else F.lit(False)
        above = column > F.lit(rule.maximum) if rule.maximum is not None else F.lit(False)
        return below | above
    if isinstance(rule, OneOf):
        return ~column.isin(list(rule.values))
    assert isinstance(rule, Matches)  # noqa: S101
    return ~column.rlike(rf"\A(?:{rule.pattern})\z")
