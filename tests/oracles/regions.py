"""Where trucks were last seen, and what each region saw in 24 hours."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

from tests.oracles import Row, captured, start_of_window

__all__ = ["region_day", "region_minutes", "region_rolling", "truck_last_seen"]

_MINUTE, _DAY = dt.timedelta(minutes=1), dt.timedelta(hours=24)


def truck_last_seen(positions: list[Row]) -> list[Row]:
    """The newest sighting of each truck; of two at one moment the one sent later."""
    newest: dict[str, Row] = {}
    for row in sorted(positions, key=lambda r: (r["seen_at"], r["partition"], r["offset"])):
        newest[row["truck_id"]] = row
    columns = ("truck_id", "seen_at", "region", "route_id", "merchandise", "partition", "offset")
    return [{column: row[column] for column in columns} for row in newest.values()]


def region_minutes(positions: list[Row], watermark: dt.datetime) -> list[Row]:
    """Minutes that are over."""
    groups: dict[tuple[str, str, dt.datetime], list[Row]] = defaultdict(list)
    for row in positions:
        minute = start_of_window(row["seen_at"], _MINUTE)
        groups[row["region"], row["truck_id"], minute].append(row)
    return [
        {
            "region": region,
            "truck_id": truck,
            "window_start": start,
            "ended_at": start + _MINUTE,
            "sightings": len(rows),
            "load": max(row["merchandise"] for row in rows),
        }
        for (region, truck, start), rows in groups.items()
        if start + _MINUTE <= watermark
    ]


def region_day(minutes: list[Row], watermark: dt.datetime) -> list[Row]:
    """At each minute before the watermark that saw a truck, the 24 hours up to its end."""
    found = []
    for region, moment in {(row["region"], row["ended_at"]) for row in minutes}:
        rows = [
            row
            for row in minutes
            if row["region"] == region and moment - _DAY < row["ended_at"] <= moment
        ]
        if moment < watermark:
            found.append(
                {
                    "region": region,
                    "window_end": moment,
                    "sightings": sum(row["sightings"] for row in rows),
                    "trucks": len({row["truck_id"] for row in rows}),
                    "greatest_load": max(row["load"] for row in rows),
                }
            )
    return found


def region_rolling(days: list[Row], regions: list[Row]) -> list[Row]:
    """With the region as it was at that minute."""
    found = []
    for row in days:
        known = captured.as_of(regions, "region", row["region"], row["window_end"])
        about = {"title": known.get("title"), "manager": known.get("manager")}
        head = {"region": row["region"], "window_end": row["window_end"]}
        found.append(head | about | row)
    return found
