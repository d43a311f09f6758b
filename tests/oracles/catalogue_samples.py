"""Small rows of songs, machines, cards, hosts, guests and requests: few keys, so that they meet."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

from tests.oracles import Row
from tests.oracles.samples import START

__all__ = ["app_requests", "arriving", "card_payments", "connections", "hotel_events"]
__all__ += ["machine_readings", "payment_outcomes", "song_plays"]

_CITIES = ((51.5, -0.12), (51.6, -0.1), (48.86, 2.35), (-33.87, 151.21))


def _at(dice: random.Random, seconds: float) -> dt.datetime:
    """On a grid of half seconds: edges of windows are met, and so are other rows."""
    return START + dt.timedelta(seconds=dice.randrange(int(2 * seconds)) / 2)


def arriving(dice: random.Random, rows: list[Row], on: str, lateness: float) -> list[Row]:
    """Rows in an order in which none comes more than the lateness after a newer one."""
    moments = [(row[on] + dt.timedelta(seconds=dice.uniform(0, lateness)), n) for n, row in
               enumerate(rows)]  # fmt: skip
    return [rows[n] for _, n in sorted(moments)]


def song_plays(dice: random.Random, count: int, seconds: float = 900) -> list[Row]:
    """Of more songs than a list has places."""
    return [
        {
            "play_id": f"p-{n}",
            "song_id": f"s{dice.choice((1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)):03}",
            "listener_id": dice.randrange(1, 5),
            "played_at": _at(dice, seconds),
        }
        for n in range(count)
    ]


def machine_readings(dice: random.Random, count: int) -> list[Row]:
    """Two machines every five seconds; from time to time one gets hotter, rougher or both."""
    rows: list[Row] = []
    worn, kind = 0, 0
    for n in range(count):
        worn = worn + 1 if worn or dice.random() < 0.1 else 0
        kind = dice.randrange(3) if worn == 1 else kind
        worn = 0 if worn > 8 else worn
        warm, rough = (worn if kind != 1 else 0), (worn if kind != 0 else 0)
        rows.append(
            {
                "machine_id": "m-01" if n % 4 else "m-02",
                "temperature": round(60 + dice.uniform(-0.5, 0.5) + 2 * warm, 4),
                "vibration": round(2 + dice.uniform(0, 0.1) + rough / 5, 4),
                "measured_at": START + dt.timedelta(seconds=5 * n),
            }
        )
    return rows


def card_payments(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "payment_id": f"pay-{n}",
            "card_id": dice.choice(("card-0001", "card-0002")),
            "card_kind": dice.choice(("debit", "credit", "prepaid")),
            "merchant": "grocer",
            "amount": Decimal(dice.choice((1, 1999, 2000, 2001, 99999))) / 100,
            "latitude": (city := dice.choice(_CITIES))[0],
            "longitude": city[1],
            "paid_at": _at(dice, 480),
        }
        for n in range(count)
    ]


def payment_outcomes(dice: random.Random, count: int) -> list[Row]:
    """Of payments that may not have been decided, several of one."""
    return [
        {
            "outcome_id": f"out-{n}",
            "payment_id": f"pay-{dice.randrange(2 * count)}",
            "outcome": dice.choice(("chargeback", "confirmed", "cleared")),
            "reported_at": _at(dice, 600),
        }
        for n in range(count)
    ]


def connections(dice: random.Random, count: int) -> list[Row]:
    """One host at a beat, with some beats missing; an address that everybody knows."""
    rows, beat = [], 0
    for n in range(count):
        beat += 1
        host, address, second = "pc-1", "203.0.113.9", 40.0 * beat + dice.choice((0, 0, 1, 2))
        if dice.random() < 0.4:
            beat -= dice.random() < 0.97
            host, second = dice.choice(("pc-1", "pc-2", "pc-3")), dice.randrange(20 * count)
            address = dice.choice((*("10.0.0.1",) * 9, "203.0.113.9"))
            second += dice.random()
        rows.append(
            {
                "connection_id": f"x-{n}",
                "host": host,
                "address": address,
                "sent_bytes": dice.randrange(1000),
                "connected_at": START + dt.timedelta(seconds=second),
            }
        )
    return rows


def hotel_events(dice: random.Random, count: int) -> list[Row]:
    """In no order that makes sense: a table must not depend on one."""
    rows = []
    for n in range(count):
        event = dice.choice(
            ("reservation", "confirmation", "check_in", "minibar", "complaint", "check_out")
        )
        guest = dice.choice((1, 2, 9))
        rows.append(
            {
                "event_id": f"h-{n}",
                "guest_id": guest,
                "stay_id": f"stay-{guest}-{dice.randrange(3)}",
                "event": event,
                "amount": Decimal(dice.randrange(1, 5000)) / 100 if event == "minibar" else None,
                "text": dice.choice(("too loud", "cold")) if event == "complaint" else None,
                "happened_at": _at(dice, 300),
            }
        )
    return rows


def app_requests(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "request_id": f"q-{n}",
            "service": dice.choice(("web", "cart")),
            "path": "/list",
            "status": dice.choice((200, 404, 499, 500, 503)),
            "latency_ms": dice.randrange(500),
            "requested_at": _at(dice, 240),
        }
        for n in range(count)
    ]
