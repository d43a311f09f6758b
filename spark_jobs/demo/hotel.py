"""Guests of a hotel: they book, arrive, empty the minibar, complain now and then, and leave."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "hotel_events"]

GUESTS = range(1, 201)  # the first ten are members: infra/postgres/shop.sql
_COMPLAINTS = ("the room is cold", "too loud", "no towels", "the coffee!")
FLAWS = {
    "hotel_events": Flaws(
        time="happened_at", spoilt=({"event": "moved in"}, {"amount": Decimal("-1.00")})
    )
}


@dataclass
class _Stay:
    name: str = ""
    state: str = "check_out"


def hotel_events(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """What happens to two hundred guests, to those with small numbers most."""
    run, number = f"{int(clock().timestamp()):x}", 0
    stays = {guest: _Stay() for guest in GUESTS}
    while True:
        number += 1
        guest = GUESTS[min(int(dice.paretovariate(0.4)) - 1, len(GUESTS) - 1)]
        stay = stays[guest]
        if stay.state == "check_out":
            stay.name = f"stay-{run}-{number}"
        event = _next(dice, stay.state)
        if event not in ("minibar", "complaint"):
            stay.state = event
        at = clock()
        row: dict[str, Any] = {
            "event_id": f"h-{run}-{number}",
            "guest_id": guest,
            "stay_id": stay.name,
            "event": event,
            "amount": Decimal(dice.randrange(300, 4000)) / 100 if event == "minibar" else None,
            "text": dice.choice(_COMPLAINTS) if event == "complaint" else None,
            "happened_at": at,
        }
        yield Event("hotel_events", str(guest), at, row)


def _next(dice: random.Random, state: str) -> str:
    if state == "check_in":
        return dice.choices(("minibar", "complaint", "check_out"), (50, 10, 40))[0]
    follows = {"check_out": "reservation", "reservation": "confirmation"}
    return follows.get(state, "check_in")
