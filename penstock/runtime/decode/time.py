"""Event times as Spark expressions: of the record, the broker, bronze, the source or a field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.contract_time import ZONE_NAME, LocalTime
from penstock.model.formats import Debezium
from penstock.model.stream import EventTime, Stream

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["event_time", "local_moment", "time_fault", "zone_of"]

# Types of Kafka's record timestamps.
_LOG_APPEND = 1


def event_time(stream: Stream) -> Column:
    """The event time of a decoded row; null where it has none."""
    time = stream.event_time
    if isinstance(time, LocalTime):
        fold = F.col(f"payload.{time.fold}") if time.fold else None
        moment = local_moment(F.col(f"payload.{time.column}"), zone_of(time), fold)
    elif time in (EventTime.RECORD, EventTime.LOG_APPEND):
        moment = F.col("timestamp")
    elif time is EventTime.INGEST:
        moment = F.col("ingested_at")
    elif time is EventTime.COMMIT:
        moment = F.col("change.committed_at")
    else:
        moment = F.col(f"payload.{time}")
    if isinstance(stream.contract.format, Debezium) and not isinstance(time, EventTime):
        # A truncate has no row to take its time from.
        return F.when(F.col("change.op") == "t", F.col("change.committed_at")).otherwise(moment)
    return moment


def zone_of(time: LocalTime) -> Column:
    return F.col(f"payload.{time.zone}") if time.zone_is_column else F.lit(time.zone)


def time_fault(stream: Stream) -> Column | None:
    """What is wrong with where the event time comes from, as a rule's name, or null.

    None where nothing can be: Kafka, bronze and Debezium always give one.
    """
    if stream.event_time is EventTime.LOG_APPEND:
        appended = F.col("timestamp_type") == _LOG_APPEND
        return F.when(~F.coalesce(appended, F.lit(False)), "log_append_time")
    if isinstance(stream.event_time, EventTime):
        return None
    local = isinstance(stream.event_time, LocalTime)
    return F.when(F.col("event_time").isNull(), "local_time" if local else "event_time")


def local_moment(local: Column, zone: Column, fold: Column | None = None) -> Column:
    """The moment at which a clock on the wall of ``zone`` shows ``local``; null for no such zone.

    Parsed rather than computed by to_utc_timestamp, because that raises on an unknown zone. Both
    take the earlier of two equal wall times and shift one that does not exist forward.
    """
    first = _moment(local, zone)
    if fold is None:
        return first
    # The second of two equal wall times stands under the offset that holds a day later.
    day = F.expr("interval 24 hours")
    second = _moment(local + day, zone) - day
    again = F.when(
        first.isNotNull() & second.isNotNull(),
        F.from_utc_timestamp(second, zone) == local.cast("timestamp"),
    )
    return F.when((fold.cast("int") == 1) & again, second).otherwise(first)


def _moment(local: Column, zone: Column) -> Column:
    named = F.when(zone.rlike(rf"\A({ZONE_NAME})\z"), zone)
    wall = F.date_format(local, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    text = F.concat(wall, F.lit(" "), named)
    return F.try_to_timestamp(text, F.lit("yyyy-MM-dd HH:mm:ss.SSSSSS VV"))
