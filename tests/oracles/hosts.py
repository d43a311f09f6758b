"""Connections of hosts, and those that beacon."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from tests.oracles import Row, first_taken_in, start_of_window

__all__ = ["host_beacons", "silver_connections"]

_MINUTE = dt.timedelta(minutes=1)
_MILLI = dt.timedelta(milliseconds=1)


def silver_connections(rows: list[Row]) -> list[Row]:
    """Each connection once."""
    return [
        {
            "connection_id": row["connection_id"],
            "host": row["host"],
            "address": row["address"],
            "sent_bytes": row["sent_bytes"],
            "connected_at": row["connected_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("connection_id",), dt.timedelta(hours=1))
    ]


def host_beacons(connections: list[Row], watermark: dt.datetime) -> list[Row]:
    """Ten minutes, every minute, once they are over."""
    pairs: dict[tuple[dt.datetime, str], dict[str, list[int]]] = defaultdict(dict)
    for row in connections:
        millis = (row["connected_at"] - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // _MILLI
        for back in range(10):
            start = start_of_window(row["connected_at"], _MINUTE) - back * _MINUTE
            pairs[start, row["address"]].setdefault(row["host"], []).append(millis)
    found = []
    for (start, address), hosts in pairs.items():
        for host, times in hosts.items():
            if start + 10 * _MINUTE > watermark or len(hosts) > 2 or len(times) < 6:
                continue
            gaps = [after - before for before, after in pairwise(sorted(times))]
            mean = Fraction(sum(gaps), len(gaps))
            variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
            if mean > 0 and variance / mean**2 <= Fraction(1, 100):
                found.append(
                    {
                        "host": host,
                        "address": address,
                        "window_start": start,
                        "window_end": start + 10 * _MINUTE,
                        "contacts": len(times),
                        "hosts": len(hosts),
                        "beat_ms": int(mean),
                        "deviation_permille": math.isqrt(int(10**6 * variance / mean**2)),
                    }
                )
    return found
