"""Trucks on their routes: they cross regions, unload on the way, and set out again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "trucks"]

# The regions each route leads through.
ROUTES = {
    "R01": ("north", "centre", "south"),
    "R02": ("south", "centre", "north"),
    "R03": ("east", "centre", "west"),
    "R04": ("west", "centre", "east"),
    "R05": ("north", "east"),
    "R06": ("west", "south", "east"),
}
TRUCKS = [f"T{number:03}" for number in range(1, 31)]
_CROSSES = 0.1  # how often a truck that is seen has crossed into the next region
FLAWS = {
    "truck_positions": Flaws(
        time="seen_at", spoilt=({"region": "atlantis"}, {"merchandise": Decimal("-5.00")})
    )
}


@dataclass
class _Trip:
    route: str
    leg: int
    load: Decimal


def trucks(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Sightings of thirty trucks, in no order."""
    trips = {truck: _set_out(dice) for truck in TRUCKS}
    while True:
        truck = dice.choice(TRUCKS)
        trip = trips[truck]
        if dice.random() < _CROSSES:
            trip.leg += 1
            trip.load = (trip.load * Decimal("0.7")).quantize(Decimal("0.01"))
        if trip.leg == len(ROUTES[trip.route]):
            trip = trips[truck] = _set_out(dice)
        at = clock()
        row = {
            "truck_id": truck,
            "route_id": trip.route,
            "region": ROUTES[trip.route][trip.leg],
            "merchandise": trip.load,
            "seen_at": at,
        }
        yield Event("truck_positions", truck, at, row)


def _set_out(dice: random.Random) -> _Trip:
    return _Trip(dice.choice(list(ROUTES)), 0, Decimal(dice.randrange(100_000, 10_000_000)) / 100)
