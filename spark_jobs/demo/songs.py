"""Listeners and the songs they hear: a few hits are played most, and every while another one is."""

from __future__ import annotations

import random
from collections.abc import Iterator

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "song_plays"]

SONGS = [f"s{number:03}" for number in range(1, 201)]
_LISTENERS = 500
_TASTE_CHANGES = 0.0005  # how often a song rises or falls
FLAWS = {
    "song_plays": Flaws(
        time="played_at", late_by=30.0, spoilt=({"song_id": "no song"}, {"listener_id": 0})
    )
}


def song_plays(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """An endless run of plays."""
    run, number = f"{int(clock().timestamp()):x}", 0
    ranked = dice.sample(SONGS, len(SONGS))
    while True:
        number += 1
        if dice.random() < _TASTE_CHANGES:
            ranked.insert(dice.randrange(5), ranked.pop(dice.randrange(len(ranked))))
        song = ranked[min(int(dice.paretovariate(0.8)) - 1, len(ranked) - 1)]
        at, listener = clock(), dice.randrange(1, _LISTENERS)
        row = {
            "play_id": f"p-{run}-{number}",
            "song_id": song,
            "listener_id": listener,
            "played_at": at,
        }
        yield Event("song_plays", song, at, row)
