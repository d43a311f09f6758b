"""Small rows to try tables on: few keys, so that they meet, and values at the edges."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

from tests.oracles import Row

__all__ = ["START", "clicks", "readings", "returns", "sales", "sent", "shipments", "trades"]
__all__ += ["app_logs", "searches", "truck_positions", "user_changes"]

START = dt.datetime(2026, 11, 1, 9, 30, tzinfo=dt.UTC)
_MODELS, _SIZES = ("runner", "boot"), ("41", "42.5")
_REASONS = ("too_small", "damaged", "changed_mind")


def sent(rows: list[Row], topic: str = "t") -> list[Row]:
    """Rows as they come out of a topic, one after the other, with their coordinates."""
    return [
        {
            "event_time": START + dt.timedelta(milliseconds=number),
            **row,
            "_topic": topic,
            "_partition": 0,
            "_offset": number,
            "_ingested_at": START + dt.timedelta(milliseconds=number),
        }
        for number, row in enumerate(rows)
    ]


def _cents(dice: random.Random, most: int) -> Decimal:
    return Decimal(dice.randrange(1, most)) / 100


def _after(dice: random.Random, seconds: int) -> dt.datetime:
    """On a grid of whole and half seconds: edges of windows are met, and so are other rows."""
    return START + dt.timedelta(seconds=dice.randrange(2 * seconds) / 2)


def trades(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "ticker": dice.choice(("AKV", "BLW")),
            "price": (price := Decimal(dice.randrange(1, 10**8)) / 10**4),
            "ask_price": price + _cents(dice, 100),
            "size": dice.randrange(1, 10_000_000),
            "side": dice.choice(("buy", "sell")),
            "event_time": _after(dice, 12),
        }
        for _ in range(count)
    ]


def readings(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "sensor_id": dice.choice(("boiler-1", "boiler-2")),
            "value": dice.choice((-0.0, 0.0, 0.1, dice.uniform(-50, 50), dice.uniform(-1e5, 1e6))),
            "unit": "celsius",
            "calibration": dice.random() < 0.1,
            "measured_at": START + dt.timedelta(seconds=number * 7, microseconds=number),
        }
        for number in range(count)
    ]


def _shoe(dice: random.Random) -> Row:
    return {
        "model": dice.choice(_MODELS),
        "size": dice.choice(_SIZES),
        "quantity": dice.randrange(1, 6),
    }


def shipments(dice: random.Random, count: int) -> list[Row]:
    return [
        {"shipment_id": f"shp-{n}", **_shoe(dice), "unit_cost": _cents(dice, 10_000_000)}
        for n in range(count)
    ]


def sales(dice: random.Random, count: int) -> list[Row]:
    return [
        {"sale_id": f"sal-{n}", **_shoe(dice), "unit_price": _cents(dice, 10_000_000)}
        for n in range(count)
    ]


def returns(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "return_id": f"ret-{n}",
            "sale_id": f"sal-{n}",
            **_shoe(dice),
            "unit_price": _cents(dice, 10_000_000),
            "reason": dice.choice(_REASONS),
        }
        for n in range(count)
    ]


def truck_positions(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "truck_id": dice.choice(("T001", "T002", "T003")),
            "route_id": dice.choice(("R01", "R02")),
            "region": dice.choice(("north", "south")),
            "merchandise": _cents(dice, 1_000_000_000),
            "seen_at": _after(dice, 5),
        }
        for _ in range(count)
    ]


def clicks(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "click_id": f"c-{n}",
            "user_id": dice.choice((1, 2, 3, 99, None)),
            "page": dice.choice(("/", "/shoes/boot")),
            "clicked_at": _after(dice, 20) - dt.timedelta(seconds=3),
        }
        for n in range(count)
    ]


_TYPED = ("Winter Boots", " winter  boots", "winter\tboots ", "SALE", "sale", "schuhe groß")


def searches(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "search_id": f"q-{n}",
            "user_id": dice.choice((1, 2, 3, None)),
            "query": dice.choice(_TYPED),
            "searched_at": _after(dice, 20) - dt.timedelta(seconds=3),
        }
        for n in range(count)
    ]


_MESSAGES = (
    "The request was served",
    "the THE The there, the-end then",
    "Can't reach host-7: it's 3 o'clock 'quoted' rock'n'roll'",
    "Größe ÄRGER naïve Ωmega Привет x2y 42",
    "   ",
    "",
    "...!?",
)


def app_logs(dice: random.Random, count: int) -> list[Row]:
    return [
        {
            "log_id": f"l-{n}",
            "service": dice.choice(("web", "cart")),
            "host": "h-1",
            "level": dice.choice(("DEBUG", "INFO", "WARN", "ERROR", "ERROR")),
            "message": " ".join(dice.choices(_MESSAGES, k=dice.randrange(1, 3))),
            "logged_at": _after(dice, 20),
        }
        for n in range(count)
    ]


def user_changes(dice: random.Random, count: int) -> list[Row]:
    """What change capture may say of three users: some from a snapshot, then changes in order.

    Several changes can be of one transaction, and so of one moment.
    """
    known = [user for user in (1, 2, 3) if dice.random() < 0.6]
    told = [_change(dice, user, "r", 10, START) for user in known]
    at, lsn = START, 10
    alive = set(known)
    while len(told) < count:
        at += dt.timedelta(seconds=dice.choice((0, 0, 1, 2)))
        lsn += dice.randrange(1, 5)
        if dice.random() < 0.05:
            columns = ("user_id", "name", "email", "country", "tier", "updated_at", "zip_code")
            nobody = dict.fromkeys(columns)
            told.append(_change(dice, 1, "t", lsn, at) | nobody)
            alive.clear()
            continue
        user = dice.choice((1, 2, 3))
        op = dice.choice(("u", "u", "d")) if user in alive else "c"
        told.append(_change(dice, user, op, lsn, at))
        (alive.discard if op == "d" else alive.add)(user)
    return told


def _change(dice: random.Random, user: int, op: str, lsn: int, at: dt.datetime) -> Row:
    return {
        "user_id": user,
        "name": f"user {user}",
        "email": f"u{user}@example.org",
        "country": dice.choice(("GB", "FR")),
        "tier": dice.choice(("basic", "plus", "gold")),
        "updated_at": at,
        "zip_code": dice.choice(("10115", "37073", None)),
        "_op": op,
        "_deleted": op == "d",
        "_truncated": op == "t",
        "_snapshot": op == "r",
        "_lsn": lsn,
        "_committed_at": at,
    }
