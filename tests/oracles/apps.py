"""Requests that services answered, beside what they logged."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict

from tests.oracles import Row, first_taken_in, start_of_window

__all__ = ["app_metrics", "log_minutes", "request_minutes", "silver_app_requests"]

_MINUTE = dt.timedelta(minutes=1)


def silver_app_requests(rows: list[Row]) -> list[Row]:
    """Each request once."""
    columns = ("request_id", "service", "path", "status", "latency_ms", "requested_at")
    return [
        {column: row[column] for column in columns}
        | {"partition": row["_partition"], "offset": row["_offset"]}
        for row in first_taken_in(rows, ("request_id",), dt.timedelta(hours=1))
    ]


def _minutes(
    rows: list[Row], on: str, watermark: dt.datetime
) -> dict[tuple[str, dt.datetime], list[Row]]:
    """Rows by service and minute, of minutes that are over."""
    found: dict[tuple[str, dt.datetime], list[Row]] = defaultdict(list)
    for row in rows:
        start = start_of_window(row[on], _MINUTE)
        if start + _MINUTE <= watermark:
            found[row["service"], start].append(row)
    return found


def request_minutes(requests: list[Row], watermark: dt.datetime) -> list[Row]:
    return [
        {
            "service": service,
            "window_start": start,
            "requests": len(rows),
            "failures": len([row for row in rows if row["status"] >= 500]),
            "p50_ms": _percentile([row["latency_ms"] for row in rows], 0.5),
            "p99_ms": _percentile([row["latency_ms"] for row in rows], 0.99),
        }
        for (service, start), rows in _minutes(requests, "requested_at", watermark).items()
    ]


def log_minutes(logs: list[Row], watermark: dt.datetime) -> list[Row]:
    return [
        {
            "service": service,
            "window_start": start,
            "lines": len(rows),
            "errors": len([row for row in rows if row["level"] == "ERROR"]),
        }
        for (service, start), rows in _minutes(logs, "logged_at", watermark).items()
    ]


def app_metrics(requests: list[Row], logs: list[Row]) -> list[Row]:
    """Minutes of either, side by side."""
    asked = {(row["service"], row["window_start"]): row for row in requests}
    said = {(row["service"], row["window_start"]): row for row in logs}
    return [
        {
            "service": service,
            "window_start": start,
            "requests": asked.get((service, start), {}).get("requests", 0),
            "failures": asked.get((service, start), {}).get("failures", 0),
            "lines": said.get((service, start), {}).get("lines", 0),
            "errors": said.get((service, start), {}).get("errors", 0),
            "p50_ms": asked.get((service, start), {}).get("p50_ms"),
            "p99_ms": asked.get((service, start), {}).get("p99_ms"),
        }
        for service, start in {**asked, **said}
    ]


def _percentile(values: list[int], share: float) -> float:
    """On the line between the two values around the place (n - 1) * share."""
    ranked = sorted(values)
    place = (len(ranked) - 1) * share
    low, high = math.floor(place), math.ceil(place)
    if low == high or ranked[low] == ranked[high]:
        return float(ranked[low])
    return (high - place) * ranked[low] + (place - low) * ranked[high]
