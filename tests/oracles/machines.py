"""What machines measured, step by step, and when that is an alarm."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from tests.oracles import Row, first_taken_in, start_of_window

__all__ = ["machine_alerts", "machine_steps", "silver_machine_readings"]

_STEP, _HISTORY = dt.timedelta(seconds=10), dt.timedelta(minutes=10)


def silver_machine_readings(rows: list[Row]) -> list[Row]:
    """Each measurement once, in thousandths."""
    return [
        {
            "machine_id": row["machine_id"],
            "temperature": _thousandths(row["temperature"]),
            "vibration": _thousandths(row["vibration"]),
            "measured_at": row["measured_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("machine_id", "measured_at"), dt.timedelta(hours=1))
    ]


def _thousandths(value: float) -> int:
    return int(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_HALF_UP) * 1000)


def machine_steps(readings: list[Row], watermark: dt.datetime) -> list[Row]:
    """Ten seconds at a time, once they are over."""
    groups: dict[tuple[str, dt.datetime], list[Row]] = defaultdict(list)
    for row in readings:
        groups[row["machine_id"], start_of_window(row["measured_at"], _STEP)].append(row)
    return [
        {
            "machine_id": machine,
            "window_start": start,
            "ended_at": start + _STEP,
            "temperature": _mean([row["temperature"] for row in rows]),
            "vibration": _mean([row["vibration"] for row in rows]),
            "readings": len(rows),
        }
        for (machine, start), rows in groups.items()
        if start + _STEP <= watermark
    ]


def _mean(values: list[int]) -> int:
    """Without what is left of the division."""
    return int(Fraction(sum(values), len(values)))


def machine_alerts(steps: list[Row], watermark: dt.datetime) -> list[Row]:
    """Steps before the watermark at which something alarms."""
    found = []
    for step in steps:
        at = step["ended_at"]
        known = sorted(
            (row["ended_at"], row["temperature"], row["vibration"])
            for row in steps
            if row["machine_id"] == step["machine_id"] and at - _HISTORY < row["ended_at"] <= at
        )
        if at >= watermark or len(known) < 9:
            continue
        usual, newest = known[:-3], known[-3:]
        if newest[2][0] - newest[0][0] != 2 * _STEP:
            continue
        row = {"machine_id": step["machine_id"], "window_end": at}
        row |= _judged("temperature", [u[1] for u in usual], [n[1] for n in newest])
        row |= _judged("vibration", [u[2] for u in usual], [n[2] for n in newest])
        if row["temperature_alarm"] or row["vibration_alarm"]:
            found.append(row)
    return found


def _judged(name: str, usual: list[int], newest: list[int]) -> dict[str, Any]:
    mean = Fraction(sum(usual), len(usual))
    variance = sum((value - mean) ** 2 for value in usual) / len(usual)
    above = newest[2] - mean
    alarm = newest[0] < newest[1] < newest[2] and above > 0 and above**2 > 9 * variance
    return {name: newest[2], f"usual_{name}": _mean(usual), f"{name}_alarm": alarm}
