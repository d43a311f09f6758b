"""From bytes to typed rows or to quarantine: a contract compiled into one Spark expression.

Nothing here raises on bad data. Every row comes out with a decoded payload, an error class, or
marked as skipped; which of them is decided in the same pass, so guarding costs no second look.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.formats import Avro, Debezium
from penstock.model.rules import Matches, OneOf, PlausibleTime, Range, Rule
from penstock.model.stream import LocalTime, Stream
from penstock.runtime.decode.avro import read_avro
from penstock.runtime.decode.python import read_python
from penstock.runtime.decode.time import event_time, time_fault, zone_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["VOID", "ErrorClass", "decode", "input_columns", "transform_input"]

VOID = "void"  # the column of bronze that says why a record does not count; null: it does


class ErrorClass(StrEnum):
    """Why a row is in quarantine."""

    VOID = "void"  # somebody said so: `penstock void`
    NULL_VALUE = "null_value"
    BAD_FRAME = "bad_frame"  # not magic byte 0 + four bytes of schema id + a body
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    CONTRACT = "contract"
    TRANSFORM = "transform_error"


def decode(bronze: DataFrame, stream: Stream, writers: Mapping[int, str]) -> DataFrame:
    """Bronze rows plus ``schema_id``, ``payload``, ``event_time``, ``error_class``, ``error`` and
    ``skipped`` (neither a row nor an error: a tombstone, say); of Debezium also ``change``.

    Args:
        writers: the writer schemas known so far, by registry id; other ids come out as
            ``unknown_schema`` and it is the caller's part to look them up and plan again.
            Formats other than Avro need none.
    """
    if isinstance(stream.contract.format, Avro):
        read = read_avro(bronze, stream, writers).withColumn("skipped", F.lit(False))
        unread = _unread_avro(writers)
    else:
        read = read_python(bronze, stream)
        unread = F.when(F.col("value").isNull(), ErrorClass.NULL_VALUE.value)
    timed = read.withColumn("event_time", event_time(stream))
    rule = _first_broken(stream)
    error_class = (
        F.when(F.col(VOID).isNotNull(), ErrorClass.VOID.value)
        .when(F.col("skipped"), None)
        .when(unread.isNotNull(), unread)
        .when(F.col("payload").isNull(), ErrorClass.UNDECODABLE.value)
        .when(rule.isNotNull(), ErrorClass.CONTRACT.value)
    )
    return (
        timed.withColumn("error_class", error_class)
        .withColumn(
            "error",
            F.when(
                F.col("error_class") == ErrorClass.UNKNOWN_SCHEMA.value,
                F.concat(F.lit("schema id "), F.col("schema_id").cast("string")),
            )
            .when(F.col("error_class") == ErrorClass.UNDECODABLE.value, F.col("_reason"))
            .when(F.col("error_class") == ErrorClass.VOID.value, F.col(VOID))
            .when(F.col("error_class") == ErrorClass.CONTRACT.value, rule),
        )
        .drop("_reason")
    )


def transform_input(decoded: DataFrame, stream: Stream) -> DataFrame:
    """What a definition on a stream sees of the rows that kept their contract."""
    good = decoded.where(F.col("error_class").isNull() & ~F.col("skipped"))
    return good.select(*input_columns(stream))


def input_columns(stream: Stream) -> list[Column]:
    """Of a decoded row: the payload's fields, the event time, the coordinates.

    Of changes (Debezium) also what happened to the row; of local times also the zone.
    """
    extra: list[Column] = []
    if isinstance(stream.contract.format, Debezium):
        extra += _change_columns()
    if isinstance(stream.event_time, LocalTime):
        extra.append(zone_of(stream.event_time).alias("_zone"))
    return [
        *(F.col(f"payload.{name}").alias(name) for name in stream.contract.columns),
        *([] if "event_time" in stream.contract.columns else [F.col("event_time")]),
        *extra,
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("ingested_at").alias("_ingested_at"),
    ]


def _change_columns() -> list[Column]:
    op = F.col("change.op")
    return [
        op.alias("_op"),
        (op == "d").alias("_deleted"),
        (op == "t").alias("_truncated"),
        (op == "r").alias("_snapshot"),
        F.col("change.lsn").alias("_lsn"),
        F.col("change.committed_at").alias("_committed_at"),
    ]


def _unread_avro(writers: Mapping[int, str]) -> Column:
    known = F.col("schema_id").isin([int(i) for i in writers]) if writers else F.lit(False)
    return (
        F.when(F.col("value").isNull(), ErrorClass.NULL_VALUE.value)
        .when(F.col("schema_id").isNull(), ErrorClass.BAD_FRAME.value)
        .when(~known, ErrorClass.UNKNOWN_SCHEMA.value)
    )


def _first_broken(stream: Stream) -> Column:
    """The name of the first rule a row breaks, or null.

    Whoever deletes a row need not have kept the rules with it: a delete is held to its time only,
    or the row would stay for ever.
    """
    fault = time_fault(stream)
    rules = [] if fault is None else [(fault.isNotNull(), fault)]
    changes = isinstance(stream.contract.format, Debezium)
    for rule in stream.contract.rules:
        broken = _broken(rule)
        if changes and not isinstance(rule, PlausibleTime):
            broken = (F.col("change.op") != "d") & broken
        rules.append((broken, F.lit(rule.name)))
    if not rules:
        return F.lit(None).cast("string")
    first, *rest = rules
    return reduce(lambda column, rule: column.when(*rule), rest, F.when(*first))


def _micros(span: dt.timedelta) -> int:
    return span // dt.timedelta(microseconds=1)


def _broken(rule: Rule) -> Column:
    """True where the row breaks the rule; null in an optional field breaks nothing."""
    if isinstance(rule, PlausibleTime):
        # In whole microseconds: adding an interval of the calendar to every row costs more than
        # all other rules together. Added to the time of ingest only: that one cannot overflow.
        time, ingested = F.unix_micros("event_time"), F.unix_micros("ingested_at")
        earliest = ingested - F.lit(_micros(rule.past_delta))
        latest = ingested + F.lit(_micros(rule.future_delta))
        return time.isNull() | (time < earliest) | (time > latest)
    column = F.col(f"payload.{rule.column}")
    if isinstance(rule, Range):
        below = column < F.lit(rule.minimum) if rule.minimum is not None else F.lit(False)
        above = column > F.lit(rule.maximum) if rule.maximum is not None else F.lit(False)
        return below | above
    if isinstance(rule, OneOf):
        return ~column.isin(list(rule.values))
    assert isinstance(rule, Matches)  # noqa: S101
    # Only \n ends a line (?d), as in Python: a producer must come to the same verdict.
    return ~column.rlike(rf"(?d)\A(?:{rule.pattern})\z")
