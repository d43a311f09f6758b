"""Requests to the shop's services: the busier a service is, the longer its callers wait."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "app_requests"]

# service -> its share of the requests, and the milliseconds it takes when it is not busy
SERVICES = {"web": (45, 20), "catalogue": (25, 35), "cart": (15, 15), "payments": (10, 120),
            "mail": (5, 60)}  # fmt: skip
_PATHS = ("/list", "/item", "/update", "/health")
_WAVE = 300.0  # seconds from one rush to the next
FLAWS = {
    "app_requests": Flaws(
        time="requested_at", late_by=30.0, spoilt=({"status": 999}, {"latency_ms": -5})
    )
}


def app_requests(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """An endless run of requests; every five minutes one service after the other has a rush."""
    began = clock()
    run, number = f"{int(began.timestamp()):x}", 0
    names = list(SERVICES)
    while True:
        number += 1
        at = clock()
        wave = (at - began) / dt.timedelta(seconds=_WAVE)
        rushed = names[int(wave * len(names)) % len(names)]
        weights = [share * (3 if name == rushed else 1) for name, (share, _) in SERVICES.items()]
        service = dice.choices(names, weights)[0]
        busy = 4.0 if service == rushed else 1.0
        latency = SERVICES[service][1] * busy * dice.lognormvariate(0, 0.6)
        row = {
            "request_id": f"q-{run}-{number}",
            "service": service,
            "path": dice.choice(_PATHS),
            "status": dice.choices((200, 404, 500), (94, 4, int(2 * busy)))[0],
            "latency_ms": min(int(latency), 60_000),
            "requested_at": at,
        }
        yield Event("app_requests", service, at, row)
