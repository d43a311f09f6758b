"""Plays of songs, counted in steps, and what was played most."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict

from tests.oracles import Row, first_taken_in, start_of_window

__all__ = ["silver_song_plays", "song_days", "song_hours", "song_minutes", "top_songs"]

_MINUTE, _HOUR, _DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)
# period -> how long it is, and the steps it moves by
_PERIODS = {
    "5 minutes": (5 * _MINUTE, _MINUTE),
    "day": (_DAY, _HOUR),
    "week": (7 * _DAY, _DAY),
    "month": (30 * _DAY, _DAY),
}


def silver_song_plays(rows: list[Row]) -> list[Row]:
    """Each play once."""
    return [
        {
            "play_id": row["play_id"],
            "song_id": row["song_id"],
            "listener_id": row["listener_id"],
            "played_at": row["played_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("play_id",), _HOUR)
    ]


def song_minutes(plays: list[Row], watermark: dt.datetime) -> list[Row]:
    """Minutes that are over."""
    counts = Counter((row["song_id"], start_of_window(row["played_at"], _MINUTE)) for row in plays)
    return [row for row in _placed(counts, _MINUTE) if row["window_start"] + _MINUTE <= watermark]


def song_hours(minutes: list[Row], watermark: dt.datetime) -> list[Row]:
    """Also hours that are not over; is_final tells them apart."""
    return _summed(minutes, _HOUR, watermark)


def song_days(hours: list[Row], watermark: dt.datetime) -> list[Row]:
    return _summed(hours, _DAY, watermark)


def _summed(rows: list[Row], step: dt.timedelta, watermark: dt.datetime) -> list[Row]:
    counts: Counter[tuple[str, dt.datetime]] = Counter()
    for row in rows:
        if not row["ahead"]:
            counts[row["song_id"], start_of_window(row["window_start"], step)] += row["plays"]
    return [
        {**row, "is_final": row["window_start"] + step <= watermark}
        for row in _placed(counts, step)
    ]


def _placed(counts: Counter[tuple[str, dt.datetime]], step: dt.timedelta) -> list[Row]:
    """Each count for the frame it lies in and for the one after."""
    return [
        {
            "period": period,
            "frame": start_of_window(start, size) + (size if ahead else dt.timedelta()),
            "ahead": ahead,
            "window_start": start,
            "song_id": song,
            "plays": plays,
        }
        for (song, start), plays in counts.items()
        for period, (size, moves_by) in _PERIODS.items()
        if moves_by == step
        for ahead in (False, True)
    ]


def top_songs(minutes: list[Row], hours: list[Row], days: list[Row]) -> list[Row]:
    """Of every frame in which anything was played, as of the newest step in it."""
    found = []
    for period, (size, step) in _PERIODS.items():
        frames: dict[dt.datetime, dt.datetime] = {}
        once = [
            row for row in [*minutes, *hours, *days] if row["period"] == period and not row["ahead"]
        ]
        for row in once:
            frame = start_of_window(row["window_start"], size)
            frames[frame] = max(frames.get(frame, row["window_start"]), row["window_start"])
        for frame, newest in frames.items():
            plays: dict[str, int] = defaultdict(int)
            for row in once:
                if newest - size < row["window_start"] <= newest:
                    plays[row["song_id"]] += row["plays"]
            best = sorted(plays.items(), key=lambda song: (-song[1], song[0]))[:10]
            found += [
                {
                    "period": period,
                    "frame": frame,
                    "rank": rank,
                    "song_id": song,
                    "plays": times,
                    "since": newest + step - size,
                    "until": newest + step,
                }
                for rank, (song, times) in enumerate(best, 1)
            ]
    return found
