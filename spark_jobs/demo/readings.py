"""Sensors of a plant: each wanders around its own normal value and now and then runs hot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "readings"]

# kind -> unit, normal value, how far it wanders in one step
_KINDS = {
    "boiler": ("celsius", 85.0, 0.8),
    "coldroom": ("celsius", 0.5, 0.2),
    "hall": ("percent", 45.0, 0.5),
    "line": ("hectopascal", 1013.0, 1.5),
}
SENSORS = [f"{kind}-{number}" for number in range(1, 6) for kind in _KINDS]
FLAWS = {
    "readings": Flaws(
        time="measured_at",
        late_by=90.0,  # three times what gold.sensor_5m waits for
        spoilt=({"unit": "furlong"}, {"value": 1e9}, {"sensor_id": "no such name!"}),
    )
}


def readings(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """The sensors' measurements, one sensor after the other."""
    off = dict.fromkeys(SENSORS, 0.0)  # how far each is from its normal value
    for sensor in cycle(SENSORS):
        unit, normal, wander = _KINDS[sensor.partition("-")[0]]
        jump = 12 * wander if dice.random() < 0.002 else 0.0
        off[sensor] = 0.95 * off[sensor] + dice.gauss(0, wander) + jump
        at = clock()
        value = round(normal + off[sensor], 2)
        row = {"sensor_id": sensor, "value": value, "unit": unit, "measured_at": at}
        row["calibration"] = dice.random() < 0.01
        if row["calibration"]:  # against a reference that is far off
            row["value"] = round(value + 30 * wander, 2)
        yield Event("readings", sensor, at, row)
