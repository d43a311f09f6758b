"""Hosts and what they connect to; some have been taken over and report home at a steady beat."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "connections"]

HOSTS = [f"pc-{number}" for number in range(1, 61)]
_SERVERS = [f"10.0.0.{number}" for number in range(1, 31)]
# host -> where it reports, and every how many seconds
BEACONS = {"pc-7": ("203.0.113.9", 10.0), "pc-23": ("198.51.100.77", 14.0)}
FLAWS = {
    "connections": Flaws(
        time="connected_at", late_by=30.0, spoilt=({"address": "localhost"}, {"sent_bytes": -1})
    )
}


def connections(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Connections of all hosts, beacons among them when they are due."""
    began = clock()
    run, number = f"{int(began.timestamp()):x}", 0
    beats = dict.fromkeys(BEACONS, began)
    while True:
        number += 1
        at = clock()
        due = [host for host, beat in beats.items() if beat <= at]
        if due:
            host = due[0]
            address, every = BEACONS[host]
            # The beat is kept, not the moment it was noticed: it would drift otherwise.
            beats[host] += dt.timedelta(seconds=every + dice.uniform(-0.2, 0.2))
            if beats[host] <= at:  # a slow clock of a test, or a pause: no burst to catch up
                beats[host] = at + dt.timedelta(seconds=every)
        else:
            host = dice.choice(HOSTS)
            place = min(int(dice.paretovariate(0.7)) - 1, len(_SERVERS) - 1)
            address = _SERVERS[place]
        row = {
            "connection_id": f"x-{run}-{number}",
            "host": host,
            "address": address,
            "sent_bytes": dice.randrange(40, 100_000),
            "connected_at": at,
        }
        yield Event("connections", host, at, row)
