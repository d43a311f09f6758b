"""Days that can be computed again, and those that cannot yet."""

from __future__ import annotations

import datetime as dt

import pytest

from penstock.airflow.days import day_of, interval_of, why_not
from penstock.errors import UsageError

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
DAY = dt.date(2026, 11, 16)


def test_the_form_wins_then_the_partition_then_yesterday() -> None:
    assert day_of("2026-11-03", "2026-11-02", NOW) == dt.date(2026, 11, 2)
    assert day_of("2026-11-03", "", NOW) == dt.date(2026, 11, 3)
    assert day_of("2026-11-03T00:00:00", "", NOW) == dt.date(2026, 11, 3)
    assert day_of(None, "", NOW) == DAY
    with pytest.raises(UsageError, match="not a day"):
        day_of(None, "2026-02-30", NOW)


def test_a_day_is_half_open() -> None:
    assert interval_of(dt.date(2026, 12, 31)) == ("2026-12-31T00:00Z", "2027-01-01T00:00Z")


def test_days_that_are_still_open_say_so() -> None:
    def reason(day: dt.date, watermark: str | None) -> str | None:
        streams = [{"stream": "gold.stats@ccc", "watermark": watermark}]
        return why_not("gold.stats", "ccc", day, streams, NOW)

    assert "not over" in (reason(NOW.date(), None) or "")
    assert "still open" in (reason(DAY, "2026-11-16T23:59:59+00:00") or "")
    assert reason(DAY, "2026-11-17T00:00:00+00:00") is None
    assert reason(DAY, None) is None, "a table without a watermark has no open results"
    assert why_not("gold.other", "x", DAY, [], NOW) is None
