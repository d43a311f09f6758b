"""All generators by name, each with its pace, and the order in which their rows are due."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.demo.clicks import FLAWS as CLICK_FLAWS
from spark_jobs.demo.clicks import clicks
from spark_jobs.demo.event import Clock, Event, Flaws, Shares, disturbed, wall_clock
from spark_jobs.demo.logs import FLAWS as LOG_FLAWS
from spark_jobs.demo.logs import logs
from spark_jobs.demo.readings import FLAWS as READING_FLAWS
from spark_jobs.demo.readings import readings
from spark_jobs.demo.shop import FLAWS as SHOP_FLAWS
from spark_jobs.demo.shop import shop
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
# 6 lines of logs.
SOURCES = (
    Source(trades, 1.0, TRADE_FLAWS),
    Source(readings, 0.5, READING_FLAWS),
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
