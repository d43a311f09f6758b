"""Machines of a plant: now and then one wears out, now and then one is not to be reached.

A machine that wears out gets hotter and rougher from reading to reading until somebody sees to it.
One that is offline keeps its readings and sends them, with their times, when it is back.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "machine_readings"]

MACHINES = [f"m-{number:02}" for number in range(1, 13)]
_WEARS = 20.0  # seconds between machines that begin to wear
_WORN_FOR = 60.0  # seconds until somebody sees to it
_OFFLINE = 0.0005  # how often a reading is the first that cannot be sent
_AWAY = 40.0  # seconds, at most
FLAWS = {
    "machine_readings": Flaws(
        time="measured_at",
        late_by=20.0,
        spoilt=({"temperature": 9e3}, {"vibration": -1.0}, {"machine_id": "?"}),
    )
}


@dataclass
class _Machine:
    warmth: float
    worn_since: dt.datetime | None = None
    away_until: dt.datetime | None = None
    kept: list[Event] = field(default_factory=list)


def machine_readings(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Readings of a dozen machines, in no order."""
    machines = {name: _Machine(dice.uniform(50, 70)) for name in MACHINES}
    wears_at = clock()
    while True:
        at = clock()
        if at >= wears_at:
            dice.choice(list(machines.values())).worn_since = at
            wears_at = at + dt.timedelta(seconds=_WEARS)
        name = dice.choice(MACHINES)
        machine = machines[name]
        event = Event("machine_readings", name, at, _measured(dice, name, machine, at))
        if machine.away_until is None and dice.random() < _OFFLINE:
            machine.away_until = at + dt.timedelta(seconds=dice.uniform(0, _AWAY))
        if machine.away_until is not None and at < machine.away_until:
            machine.kept.append(event)
            continue
        yield from machine.kept
        machine.kept, machine.away_until = [], None
        yield event


def _measured(dice: random.Random, name: str, machine: _Machine, at: dt.datetime) -> dict[str, Any]:
    worn = (at - machine.worn_since).total_seconds() if machine.worn_since else 0.0
    if worn > _WORN_FOR:
        machine.worn_since, worn = None, 0.0
    return {
        "machine_id": name,
        "temperature": round(machine.warmth + dice.gauss(0, 0.4) + worn / 4, 3),
        "vibration": round(max(0.0, 2.0 + dice.gauss(0, 0.05) + worn / 40), 3),
        "measured_at": at,
    }
