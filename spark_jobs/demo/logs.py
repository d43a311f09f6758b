"""What the shop's services log: mostly that all is well, now and then that one of them is not."""

from __future__ import annotations

import random
from collections.abc import Iterator

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "logs"]

# service -> how much of all lines it writes
SERVICES = {"web": 45, "catalogue": 25, "cart": 15, "payments": 10, "mail": 5}
_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
_CALM, _TROUBLED = (20, 70, 8, 2), (10, 40, 20, 30)
_TROUBLE, _CALMS = 0.0005, 0.01  # how often a line is the first, or the last, of such a time
_SAID = {
    "DEBUG": (
        "The cache answered in {n} ms",
        "Connection {n} went back to the pool",
    ),
    "INFO": (
        "The request was served in {n} ms",
        "Order {n} is complete, and the customer was told",
        "A visitor opened the page; it's his visit no. {n}",
        "The price of item {n} didn't change",
    ),
    "WARN": (
        "The request took {n} ms: slower than it should be",
        "Retrying the call to the warehouse (attempt {n})",
    ),
    "ERROR": (
        "The call to the warehouse timed out after {n} ms",
        "Can't write order {n}: the database refused the connection",
        "Payment of order {n} failed; the bank did not answer",
    ),
}
FLAWS = {
    "app_logs": Flaws(time="logged_at", spoilt=({"level": "SCREAM"}, {"service": "no such name!"}))
}


def logs(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Lines of five services, each on three hosts; one that is in trouble logs many errors."""
    run = f"{int(clock().timestamp()):x}"
    number, troubled = 0, None
    while True:
        number += 1
        if troubled is None and dice.random() < _TROUBLE:
            troubled = dice.choice(list(SERVICES))
        elif troubled is not None and dice.random() < _CALMS:
            troubled = None
        service = dice.choices(list(SERVICES), list(SERVICES.values()))[0]
        level = dice.choices(_LEVELS, _TROUBLED if service == troubled else _CALM)[0]
        at = clock()
        row = {
            "log_id": f"l-{run}-{number}",
            "service": service,
            "host": f"{service}-{dice.randrange(1, 4)}",
            "level": level,
            "message": dice.choice(_SAID[level]).format(n=dice.randrange(1, 5000)),
            "logged_at": at,
        }
        yield Event("app_logs", row["host"], at, row)
