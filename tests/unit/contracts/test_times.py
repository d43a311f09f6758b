"""Event times: where they come from, and what a wall clock means on the days it changes."""

from __future__ import annotations

import datetime as dt
import json
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import functions as F

from penstock import columns
from penstock.errors import DefinitionError
from penstock.model import EventTime, Json, LocalTime
from penstock.model.contract_time import instant
from tests.unit.contracts.conftest import LOCAL, MICROS, NOW, declared, record

SCHEMA = record(
    ("wall", ["null", LOCAL], None),
    ("zone", "string", "UTC"),
    ("again", ["null", "int"], None),
    ("at", ["null", MICROS], None),
)
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"

# wall time, zone, fold -> the moment in UTC
CLOCKS = [
    ("2026-07-01T12:00:00", BERLIN, None, "2026-07-01T10:00:00"),
    ("2026-01-01T12:00:00", BERLIN, None, "2026-01-01T11:00:00"),
    ("2026-03-29T01:59:59.999999", BERLIN, None, "2026-03-29T00:59:59.999999"),
    ("2026-03-29T02:30:00", BERLIN, None, "2026-03-29T01:30:00"),  # shows 03:30 there
    ("2026-03-29T02:30:00", BERLIN, 1, "2026-03-29T01:30:00"),
    ("2026-03-29T03:00:00", BERLIN, None, "2026-03-29T01:00:00"),
    ("2026-10-25T02:30:00", BERLIN, None, "2026-10-25T00:30:00"),
    ("2026-10-25T02:30:00", BERLIN, 0, "2026-10-25T00:30:00"),
    ("2026-10-25T02:30:00", BERLIN, 1, "2026-10-25T01:30:00"),
    ("2026-10-25T01:59:59", BERLIN, 1, "2026-10-24T23:59:59"),
    ("2026-10-25T03:00:00", BERLIN, 1, "2026-10-25T02:00:00"),
    ("2026-10-24T12:00:00", BERLIN, 1, "2026-10-24T10:00:00"),
    ("2026-11-01T01:30:00", NEW_YORK, None, "2026-11-01T05:30:00"),
    ("2026-11-01T01:30:00", NEW_YORK, 1, "2026-11-01T06:30:00"),
    ("2026-03-08T02:15:00", NEW_YORK, None, "2026-03-08T07:15:00"),
    ("2026-04-05T01:45:00", "Australia/Lord_Howe", 1, "2026-04-04T15:15:00"),
    ("2026-06-01T00:00:00", "UTC", 1, "2026-06-01T00:00:00"),
]


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(("wall", "zone", "fold", "moment"), CLOCKS)
def test_python_reads_wall_clocks(wall, zone, fold, moment):
    assert instant(dt.datetime.fromisoformat(wall), zone, later=fold == 1) == utc(moment)


@pytest.mark.spark
def test_spark_reads_them_the_same(decoded):
    stream = declared(SCHEMA, Json(), event_time=LocalTime("wall", "zone", fold="again"))
    values = [json.dumps({"wall": w, "zone": z, "again": f}).encode() for w, z, f, _ in CLOCKS]
    rows, good = decoded(stream, values)
    assert [row["event_time"] for row in rows] == [utc(moment) for *_, moment in CLOCKS]
    assert [row["_zone"] for row in good] == [zone for _, zone, *_ in CLOCKS]


@pytest.mark.spark
def test_a_zone_nobody_knows_breaks_the_contract_not_the_query(decoded):
    stream = declared(SCHEMA, Json(), event_time=LocalTime("wall", "zone", fold="again"))
    zones = ["Mars/Olympus", "", "PST", "+02:00", "UTC+1", "europe/berlin", "a' or 1", BERLIN]
    wall = "2026-07-01T12:00:00"
    values = [json.dumps({"wall": wall, "zone": z, "again": 1}).encode() for z in zones]
    rows, _ = decoded(stream, [*values, b'{"zone": "UTC"}'])
    errors = [row["error"] for row in rows]
    assert errors == ["local_time"] * 7 + [None, "local_time"]
    assert {row["error_class"] for row in rows} == {"contract", None}
    fitted = {"wall": dt.datetime.fromisoformat(wall), "again": 1}
    assert [stream.event_time.of({**fitted, "zone": z}) is None for z in zones] == [True] * 7 + [
        False
    ]


@pytest.mark.spark
def test_every_other_source_of_event_time(decoded):
    value = json.dumps({"at": "2026-11-16T11:59:00Z"}).encode()
    at = {
        time: decoded(declared(SCHEMA, Json(), event_time=time), [value], timestamp_type=1)[0][0]
        for time in (EventTime.RECORD, EventTime.LOG_APPEND, EventTime.INGEST, "at")
    }
    assert at["at"]["event_time"] == utc("2026-11-16T11:59:00")
    for time in (EventTime.RECORD, EventTime.LOG_APPEND, EventTime.INGEST):
        assert at[time]["event_time"] == NOW
        assert at[time]["error_class"] is None


@pytest.mark.spark
def test_a_topic_that_keeps_create_time_has_no_log_append_time(decoded):
    rows, good = decoded(declared(SCHEMA, Json(), event_time=EventTime.LOG_APPEND), [b"{}"])
    assert (rows[0]["error_class"], rows[0]["error"]) == ("contract", "log_append_time")
    assert not good


@pytest.mark.spark
def test_a_row_without_event_time_breaks_the_contract(decoded):
    rows, _ = decoded(declared(SCHEMA, Json(), event_time="at"), [b"{}"])
    assert (rows[0]["error_class"], rows[0]["error"]) == ("contract", "event_time")


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (EventTime.COMMIT, "only changes of Debezium"),
        ("nothing", "neither an EventTime nor a field"),
        ("zone", "is string, not a timestamp"),
        ("wall", "is local time; say where"),
        (LocalTime("at", "UTC"), "needs a local-timestamp"),
        (LocalTime("wall", "Europe/Atlantis"), "there is no zone"),
        (LocalTime("wall", "again"), "neither an IANA name"),
        (LocalTime("wall", "zone", fold="zone"), "is no integer or boolean field"),
    ],
)
def test_wrong_event_times_are_refused_where_they_are_declared(time, said):
    with pytest.raises(DefinitionError, match=said):
        declared(SCHEMA, Json(), event_time=time)


# --- penstock.columns -----------------------------------------------------------------------------
@pytest.mark.spark
@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe"])
def test_days_and_hours_are_those_of_the_zone(spark, zone):
    starts = [utc("2026-03-07T00:00:00"), utc("2026-03-28T00:00:00"), utc("2026-10-24T00:00:00"),
              utc("2026-10-31T00:00:00")]  # fmt: skip
    moments = [start + dt.timedelta(minutes=30 * n) for start in starts for n in range(120)]
    frame = spark.createDataFrame([(m,) for m in moments], "ts timestamp")
    rows = frame.select(
        "ts",
        columns.local_day("ts", zone).alias("day"),
        columns.local_hour("ts", F.lit(zone)).alias("hour"),
        columns.local_time("ts", zone).alias("wall"),
        columns.trading_day("ts", zone, opens="18:00").alias("evening"),
        columns.trading_day("ts", zone, opens="09:30").alias("morning"),
    ).toArrow()
    rules = ZoneInfo(zone)
    for row in rows.to_pylist():
        wall = row["ts"].astimezone(rules).replace(tzinfo=None)
        assert (row["day"], row["hour"], row["wall"]) == (wall.date(), wall.hour, wall)
        assert row["evening"] == (wall + dt.timedelta(hours=6)).date()
        assert row["morning"] == (wall - dt.timedelta(hours=9, minutes=30)).date()


@pytest.mark.spark
def test_days_of_23_and_25_hours(spark):
    days = {
        (BERLIN, "2026-03-29"): 23.0,
        (BERLIN, "2026-10-25"): 25.0,
        (BERLIN, "2026-10-26"): 24.0,
        (NEW_YORK, "2026-03-08"): 23.0,
        (NEW_YORK, "2026-11-01"): 25.0,
        ("Australia/Lord_Howe", "2026-04-05"): 24.5,
        ("America/Havana", "2026-03-08"): 23.0,  # clocks go forward at midnight
    }
    listed = [(zone, dt.date.fromisoformat(day)) for zone, day in days]
    frame = spark.createDataFrame(listed, "zone string, day date")
    rows = frame.select(
        "zone",
        F.col("day").cast("string").alias("day"),
        columns.hours_in_day("day", F.col("zone")).alias("hours"),
        columns.day_starts("day", F.col("zone")).alias("starts"),
    ).toArrow()
    found = {(row["zone"], row["day"]): row["hours"] for row in rows.to_pylist()}
    assert found == days
    starts = {(row["zone"], row["day"]): row["starts"] for row in rows.to_pylist()}
    assert starts[BERLIN, "2026-03-29"] == utc("2026-03-28T23:00:00")


@pytest.mark.spark
def test_wrong_zones_and_times_of_day_are_refused(spark):
    with pytest.raises(ValueError, match="there is no zone"):
        columns.local_day("ts", "Europe/Atlantis")
    with pytest.raises(ValueError, match="HH:MM"):
        columns.trading_day("ts", BERLIN, opens="6pm")
