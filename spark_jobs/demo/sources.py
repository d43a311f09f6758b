"""All generators by name, each with its pace, and the order in which their rows are due."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.demo.cards import FLAWS as CARD_FLAWS
from spark_jobs.demo.cards import cards
from spark_jobs.demo.clicks import FLAWS as CLICK_FLAWS
from spark_jobs.demo.clicks import clicks
from spark_jobs.demo.event import Clock, Event, Flaws, Shares, disturbed, wall_clock
from spark_jobs.demo.hosts import FLAWS as HOST_FLAWS
from spark_jobs.demo.hosts import connections
from spark_jobs.demo.hotel import FLAWS as HOTEL_FLAWS
from spark_jobs.demo.hotel import hotel_events
from spark_jobs.demo.logs import FLAWS as LOG_FLAWS
from spark_jobs.demo.logs import logs
from spark_jobs.demo.machines import FLAWS as MACHINE_FLAWS
from spark_jobs.demo.machines import machine_readings
from spark_jobs.demo.readings import FLAWS as READING_FLAWS
from spark_jobs.demo.readings import readings
from spark_jobs.demo.requests import FLAWS as REQUEST_FLAWS
from spark_jobs.demo.requests import app_requests
from spark_jobs.demo.shop import FLAWS as SHOP_FLAWS
from spark_jobs.demo.shop import shop
from spark_jobs.demo.songs import FLAWS as SONG_FLAWS
from spark_jobs.demo.songs import song_plays
from spark_jobs.demo.trades import FLAWS as TRADE_FLAWS
from spark_jobs.demo.trades import trades
from spark_jobs.demo.trucks import FLAWS as TRUCK_FLAWS
from spark_jobs.demo.trucks import trucks

__all__ = ["SOURCES", "STREAMS", "Source", "merged"]


@dataclass(frozen=True)
class Source:
    """A generator and its pace: for every trade, this many of its rows."""

    make: Callable[[random.Random, Clock], Iterator[Event]]
    pace: float
    flaws: Mapping[str, Flaws]

    def events(self, seed: int, shares: Shares, clock: Clock = wall_clock) -> Iterator[Event]:
        """An endless, repeatable run: the same seed and clock, the same rows."""
        dice = random.Random(seed)
        return disturbed(self.make(dice, clock), dice, shares, self.flaws)


# At 20 trades a second: 10 readings, 4 sightings, 6 clicks and searches, 2 bookings of the shop,
# 6 lines of logs, 6 readings of machines, 4 plays, 4 card payments and reports of them, 6
# connections, 2 events of the hotel, 6 requests.
SOURCES = (
    Source(trades, 1.0, TRADE_FLAWS),
    Source(readings, 0.5, READING_FLAWS),
    Source(machine_readings, 0.3, MACHINE_FLAWS),
    Source(song_plays, 0.2, SONG_FLAWS),
    Source(cards, 0.2, CARD_FLAWS),
    Source(connections, 0.3, HOST_FLAWS),
    Source(hotel_events, 0.1, HOTEL_FLAWS),
    Source(app_requests, 0.3, REQUEST_FLAWS),
    Source(trucks, 0.2, TRUCK_FLAWS),
    Source(clicks, 0.3, CLICK_FLAWS),
    Source(shop, 0.1, SHOP_FLAWS),
    Source(logs, 0.3, LOG_FLAWS),
)
STREAMS = tuple(name for source in SOURCES for name in source.flaws)


def merged(
    streams: Sequence[str], rate: float, seed: int, shares: Shares, clock: Clock = wall_clock
) -> Iterator[tuple[float, Event]]:
    """Events of these streams with the second, from the start, at which each is due.

    A generator of several streams runs whole, and only what was asked for is passed on.
    """
    queue = []
    for number, source in enumerate(SOURCES):
        if set(source.flaws) & set(streams):
            queue.append((0.0, number, source.events(seed, shares, clock)))
    heapq.heapify(queue)
    while queue:
        due, number, events = queue[0]
        event = next(events)
        if event.stream in streams:
            yield due, event
        step = 1 / (rate * SOURCES[number].pace)
        heapq.heapreplace(queue, (due + step, number, events))
