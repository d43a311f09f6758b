"""What the oracles share is right: of rows sent again, the first counts."""

from __future__ import annotations

import datetime as dt

from tests.oracles import first_taken_in, samples, start_of_window


def test_of_rows_sent_again_the_first_counts():
    def row(key: str, minutes: int, offset: int) -> dict:
        at = samples.START + dt.timedelta(minutes=minutes)
        return {"k": key, "_ingested_at": at, "_partition": 0, "_offset": offset}

    taken = [("a", 0), ("a", 0), ("b", 5), ("a", 60), ("a", 100), ("a", 161)]
    rows = [row(key, minutes, offset) for offset, (key, minutes) in enumerate(taken)]
    kept = first_taken_in(reversed(rows), ("k",), dt.timedelta(hours=1))
    assert [r["_offset"] for r in kept] == [0, 2, 5], "a copy makes the next one a copy"


def test_windows_lie_on_a_grid_through_1970():
    five = dt.timedelta(minutes=5)
    edge = dt.datetime(2026, 11, 1, 9, 35, tzinfo=dt.UTC)
    assert start_of_window(edge, five) == edge
    assert start_of_window(edge - dt.timedelta(microseconds=1), five) == edge - five
    early = dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC)
    assert start_of_window(early, five) == dt.datetime(1969, 12, 31, 23, 55, tzinfo=dt.UTC)
