"""Trucks: what each last declared in each region, and what that comes to."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

from tests.oracles import Row

__all__ = ["merchandise_by_region", "silver_truck_positions", "truck_loads"]


def silver_truck_positions(rows: list[Row]) -> list[Row]:
    """Every sighting, sent again or not."""
    return [
        {
            "truck_id": row["truck_id"],
            "route_id": row["route_id"],
            "region": row["region"],
            "merchandise": row["merchandise"],
            "seen_at": row["seen_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in rows
    ]


def truck_loads(positions: list[Row]) -> list[Row]:
    """Per region, truck and route the newest sighting; of two at one moment the one sent later."""
    newest: dict[tuple[Any, ...], Row] = {}
    for row in positions:
        name = (row["region"], row["truck_id"], row["route_id"])
        best = newest.get(name)
        if best is None or _moment(row) > _moment(best):
            newest[name] = row
    columns = ("region", "truck_id", "route_id", "merchandise", "seen_at", "partition", "offset")
    return [{column: row[column] for column in columns} for row in newest.values()]


def _moment(row: Row) -> tuple[Any, ...]:
    return row["seen_at"], row["partition"], row["offset"]


def merchandise_by_region(loads: list[Row]) -> list[Row]:
    """Exact decimals throughout."""
    regions: dict[str, list[Row]] = defaultdict(list)
    for row in loads:
        regions[row["region"]].append(row)
    found = []
    for region, rows in regions.items():
        ranked = sorted(row["merchandise"] for row in rows)
        found.append(
            {
                "region": region,
                "merchandise": sum(ranked, Decimal(0)),
                "pairs": len({(row["truck_id"], row["route_id"]) for row in rows}),
                "trucks": len({row["truck_id"] for row in rows}),
                "median_load": _percentile(ranked, Decimal("0.5")),
                "p95_load": _percentile(ranked, Decimal("0.95")),
            }
        )
    return found


def _percentile(ranked: list[Decimal], share: Decimal) -> Decimal:
    place = (len(ranked) - 1) * share
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])
