"""Readings and what each sensor measured in five minutes."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

from tests.oracles import Row, first_taken_in, start_of_window

__all__ = ["sensor_5m", "silver_readings"]

_FIVE = dt.timedelta(minutes=5)


def silver_readings(rows: list[Row]) -> list[Row]:
    """Each measurement once, a negative nought as nought."""
    once = first_taken_in(rows, ("sensor_id", "measured_at"), dt.timedelta(hours=1))
    return [
        {
            "sensor_id": row["sensor_id"],
            "value": abs(row["value"]) if row["value"] == 0 else row["value"],
            "unit": row["unit"],
            "calibration": row["calibration"],
            "measured_at": row["measured_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in once
    ]


def sensor_5m(readings: list[Row], watermark: dt.datetime) -> list[Row]:
    """Windows that end at or before the watermark."""
    groups: dict[tuple[str, dt.datetime], list[float]] = defaultdict(list)
    for row in readings:
        groups[row["sensor_id"], start_of_window(row["measured_at"], _FIVE)].append(row["value"])
    return [
        {
            "sensor_id": sensor,
            "window_start": start,
            "window_end": start + _FIVE,
            "min_value": min(values),
            "max_value": max(values),
            "mean_value": _mean(values),
            "p95_value": _percentile(values, 0.95),
            "readings": len(values),
        }
        for (sensor, start), values in groups.items()
        if start + _FIVE <= watermark
    ]


def _mean(values: list[float]) -> float:
    """Of the values to the millionth, to ten digits after the point."""
    millionths = [Decimal(repr(v)).quantize(Decimal("1e-6"), ROUND_HALF_UP) for v in values]
    mean = sum(millionths, Decimal(0)) / len(values)
    return float(mean.quantize(Decimal("1e-10"), ROUND_HALF_UP))


def _percentile(values: list[float], share: float) -> float:
    """On the line between the two values around the place (n - 1) * share."""
    ranked = sorted(values)
    place = (len(ranked) - 1) * share
    low, high = math.floor(place), math.ceil(place)
    if low == high or ranked[low] == ranked[high]:
        return ranked[low]
    return (high - place) * ranked[low] + (place - low) * ranked[high]
