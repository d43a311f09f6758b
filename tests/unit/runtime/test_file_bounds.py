"""What the log says about the times in a file: true for every time a row may have."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.listing import Listing
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.delta.source import adds_at
from penstock.runtime.delta.upsert import Spans
from penstock.runtime.times import STAMP, parse_stamp, to_micros

UTC = dt.UTC
LAST = to_micros(dt.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC))
FIRST = to_micros(dt.datetime(1, 1, 1, tzinfo=UTC))


def bounds(folder: Path, *times: int) -> tuple[Any, Any]:
    rows = pa.table({"at": pa.array(times, pa.int64()).cast(STAMP), "n": range(len(times))})
    (action,) = write_arrow(rows, folder)
    told = json.loads(action["add"]["stats"])
    assert told["maxValues"]["n"] == len(times) - 1  # another column's bounds do not go with them
    return told["minValues"].get("at"), told["maxValues"].get("at")


def test_a_time_is_rounded_outwards(tmp_path):
    at = to_micros(dt.datetime(2026, 11, 1, 8, 0, 0, 1, UTC))
    assert bounds(tmp_path, at) == ("2026-11-01T08:00:00.000Z", "2026-11-01T08:00:00.001Z")


def test_the_last_whole_millisecond_there_is(tmp_path):
    assert bounds(tmp_path, LAST) == ("9999-12-31T23:59:59.999Z",) * 2


@pytest.mark.parametrize("over", [1, 2, 500, 998, 999])
def test_what_would_be_rounded_beyond_the_last_moment_has_no_bounds(tmp_path, over):
    assert bounds(tmp_path, 0, LAST + over) == (None, None)


@pytest.mark.parametrize("beyond", [LAST + 1000, FIRST - 1, -(1 << 60)])
def test_a_time_no_clock_here_can_tell_has_no_bounds(tmp_path, beyond):
    assert bounds(tmp_path, 0, beyond) == (None, None)


OLD = [
    (dt.datetime(1, 1, 1, 0, 0, 0, 5, UTC), "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.001Z"),
    (dt.datetime(99, 12, 31, tzinfo=UTC), "0099-12-31T00:00:00.000Z", "0099-12-31T00:00:00.000Z"),
    (dt.datetime(999, 1, 2, 3, tzinfo=UTC), "0999-01-02T03:00:00.000Z", "0999-01-02T03:00:00.000Z"),
]


@pytest.mark.parametrize(("at", "low", "high"), OLD)
def test_a_year_has_four_digits(tmp_path, at, low, high):
    assert bounds(tmp_path, to_micros(at)) == (low, high)


@pytest.mark.parametrize(("at", "low", "high"), OLD)
def test_who_looks_for_an_old_time_finds_its_file(tmp_path, at, low, high):
    table, micros = tmp_path / "t", to_micros(at)
    schema = pa.schema([("at", STAMP)])
    DeltaLog.create(table, schema)
    log, listing = DeltaLog.take(table, 1), Listing(table, "at")
    listing.between(log.version, None, None)
    rows = pa.table({"at": pa.array([micros], pa.int64()).cast(STAMP)})
    version = log.commit(write_arrow(rows, table), {}, {})
    (add,) = adds_at(table, version)
    assert to_micros(add["min.at"]) <= micros <= to_micros(add["max.at"])
    for known in (listing, Listing(table, "at")):
        assert len(known.between(version, micros, micros + 1)) == 1
        assert known.between(version, micros + 2000, None) == []
    spans = Spans(table, version, schema, (), "at")
    assert len(spans.holders(rows)) == 1


@pytest.mark.parametrize("told", ["99-01-01T00:00:00.000Z", "+12345-01-01T00:00:00Z", "", "soon"])
def test_what_cannot_be_read_as_a_time_is_no_bound(told):
    assert parse_stamp(told) is None


def test_a_file_with_bounds_that_cannot_be_read_may_hold_anything(tmp_path):
    """As one that was written before years had four digits."""
    table = tmp_path / "t"
    schema = pa.schema([("at", STAMP)])
    DeltaLog.create(table, schema)
    log, listing = DeltaLog.take(table, 1), Listing(table, "at")
    listing.between(log.version, None, None)
    rows = pa.table({"at": pa.array([FIRST], pa.int64()).cast(STAMP)})
    (action,) = write_arrow(rows, table)
    action["add"]["stats"] = action["add"]["stats"].replace("0001-", "1-")
    version = log.commit([action], {}, {})
    for known in (listing, Listing(table, "at")):
        assert len(known.between(version, 0, 1)) == 1
    assert len(Spans(table, version, schema, (), "at").holders(rows)) == 1
