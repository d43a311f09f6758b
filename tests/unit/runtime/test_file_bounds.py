"""What the log says about the times in a file: true for every time a row may have."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.runtime.delta.files import write_arrow
from penstock.runtime.times import STAMP, to_micros

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
