"""Cards that pay near home, a few thieves, and what becomes known of their payments later."""

from __future__ import annotations

import datetime as dt
import heapq
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "cards"]

CITIES = {
    "London": (51.5, -0.12), "Paris": (48.86, 2.35), "New York": (40.71, -74.0),
    "Tokyo": (35.68, 139.69), "Sydney": (-33.87, 151.21),
}  # fmt: skip
CARDS = [f"card-{number:04}" for number in range(1, 401)]
_KINDS = ("debit", "credit", "prepaid")
_MERCHANTS = ("grocer", "fuel", "books", "coffee", "travel")
_THEFT = 0.01  # how often a payment is a thief's: from afar, or the first of a burst
_DOUBTED = 0.01  # of honest payments: the owner says that all is well
_KNOWN_AFTER = 60.0  # seconds until something is reported, at most
FLAWS = {
    "card_payments": Flaws(
        time="paid_at", late_by=5.0, spoilt=({"card_kind": "gift"}, {"latitude": 123.0})
    ),
    "payment_outcomes": Flaws(time="reported_at", spoilt=({"outcome": "perhaps"},)),
}


def cards(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Payments, and reports of some of them."""
    run, number = f"{int(clock().timestamp()):x}", 0
    homes = {card: dice.choice(list(CITIES)) for card in CARDS}
    burst: list[str] = []  # cards of thieves who are still busy
    waiting: list[tuple[dt.datetime, str, str]] = []  # reports, by when they are due
    while True:
        at = clock()
        if waiting and waiting[0][0] <= at:
            _, payment, outcome = heapq.heappop(waiting)
            yield _report(payment, outcome, at)
            continue
        number += 1
        stolen = bool(burst) or dice.random() < _THEFT
        card = burst.pop() if burst else dice.choice(CARDS)
        if stolen and not burst and dice.random() < 0.2:
            burst = [card] * dice.randrange(3, 8)
        city = dice.choice(list(CITIES)) if stolen else homes[card]
        row = _payment(dice, f"pay-{run}-{number}", card, city, at)
        yield Event("card_payments", card, at, row)
        if stolen or dice.random() < _DOUBTED:
            outcome = dice.choice(("chargeback", "confirmed")) if stolen else "cleared"
            later = at + dt.timedelta(seconds=dice.uniform(0, _KNOWN_AFTER))
            heapq.heappush(waiting, (later, row["payment_id"], outcome))


def _payment(
    dice: random.Random, name: str, card: str, city: str, at: dt.datetime
) -> dict[str, Any]:
    north, east = CITIES[city]
    return {
        "payment_id": name,
        "card_id": card,
        "card_kind": _KINDS[int(card[-1]) % len(_KINDS)],
        "merchant": dice.choice(_MERCHANTS),
        "amount": Decimal(str(round(dice.lognormvariate(3, 1) + 0.01, 2))),
        "latitude": round(north + dice.uniform(-0.1, 0.1), 4),
        "longitude": round(east + dice.uniform(-0.1, 0.1), 4),
        "paid_at": at,
    }


def _report(payment: str, outcome: str, at: dt.datetime) -> Event:
    row = {
        "outcome_id": payment.replace("pay", "out", 1),
        "payment_id": payment,
        "outcome": outcome,
        "reported_at": at,
    }
    return Event("payment_outcomes", payment, at, row)
