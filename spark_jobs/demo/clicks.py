"""Clicks in the web shop: by the five users of the demo shop, by strangers, and by nobody."""

from __future__ import annotations

import random
from collections.abc import Iterator

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "clicks"]

USERS = (1, 2, 3, 4, 5)  # infra/postgres/shop.sql
STRANGERS = (901, 902, 903)  # logged in somewhere, but not in the shop's table
_PAGES = ("/", "/shoes/runner", "/shoes/boot", "/shoes/sandal", "/cart", "/checkout")
FLAWS = {
    "clicks": Flaws(time="clicked_at", spoilt=({"page": "javascript:alert(1)"}, {"user_id": 0}))
}


def clicks(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Page views; a click's name holds the moment its run began."""
    run = f"{int(clock().timestamp()):x}"
    number = 0
    while True:
        number += 1
        user = dice.choices((dice.choice(USERS), dice.choice(STRANGERS), None), (80, 8, 12))[0]
        at = clock()
        row = {
            "click_id": f"c-{run}-{number}",
            "user_id": user,
            "page": dice.choice(_PAGES),
            "clicked_at": at,
        }
        yield Event("clicks", str(user or run), at, row)
