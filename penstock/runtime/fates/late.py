"""``late.<table>``: rows that came after their results were closed, one line per row and result.

A line is *late* until it is reconciled, then it is gone; or it is *expired*: it came too late for
that, and stays listed.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.location import delta_table
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import quarantine
from penstock.runtime.times import STAMP, stamp

__all__ = ["EXPIRED", "LATE", "SCHEMA", "excused", "listed", "lines", "reconciled"]

LATE, EXPIRED = "late", "expired"
SCHEMA = pa.schema(
    [
        ("row_id", pa.string()),
        ("source", pa.string()),
        ("window_start", STAMP),  # the point of the result it came too late for
        ("event_time", STAMP),
        ("status", pa.string()),
        ("change", pa.string()),  # insert, or delete where the input took a row back
        ("watermark", STAMP),  # how far time had moved on when it came
        ("value", pa.string()),  # the row, as JSON
    ]
)


def listed(
    source: str,
    rows: pa.Table,
    on: str,
    points: np.ndarray,
    *,
    status: str,
    change: str,
    watermark: int,
) -> pa.Table:
    """Lines for rows and the points they came too late for."""
    found: list[dict[str, Any]] = []
    moments = rows[on].to_pylist()
    for row, at in zip(rows.to_pylist(), moments, strict=True):
        found.append(
            {
                "row_id": quarantine.row_id(row),
                "source": source,
                "event_time": at,
                "status": status,
                "change": change,
                "value": json.dumps(row, default=str, sort_keys=True),
            }
        )
    table = pa.Table.from_pylist(found, schema=SCHEMA)
    table = table.set_column(2, "window_start", pa.array(points, pa.int64()).cast(STAMP))
    marks = pa.repeat(stamp(watermark), table.num_rows)
    return table.set_column(6, "watermark", marks).cast(SCHEMA)


def lines(late: RevisionWriter, status: str | None = None) -> pa.Table:
    """What is listed now."""
    if late.position("from") is None:
        return SCHEMA.empty_table()
    rows = late.log.snapshot().to_pyarrow_table().cast(SCHEMA)
    return rows if status is None else rows.filter(pc.equal(rows["status"], status))


def reconciled(late: RevisionWriter) -> list[Action]:
    """Actions that take every late line out and leave the expired ones."""
    if late.position("from") is None:
        return []
    every = lines(late)
    stay = every.filter(pc.equal(every["status"], EXPIRED))
    gone = every.filter(pc.equal(every["status"], LATE))
    table = delta_table(late.path, late.log.version)
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    out = [removal(add["path"], add["size_bytes"]) for add in adds]
    change = Change(stay.slice(0, 0), gone)
    return [*out, *write_arrow(stay, late.path), *write_changes(change, (), late.path)]


def excused(rows: pa.Table, expired: pa.Table, source: str) -> pa.Table:
    """The rows without those that are listed as expired, each as often as it is listed."""
    counts: dict[str, int] = {}
    for line in expired.select(["row_id", "source"]).to_pylist():
        if line["source"] == source:
            counts[line["row_id"]] = counts.get(line["row_id"], 0) + 1
    if not counts:
        return rows
    keep = []
    for row in rows.to_pylist():
        name = quarantine.row_id(row)
        left = counts.get(name, 0)
        keep.append(left == 0)
        if left:
            counts[name] = left - 1
    return rows.filter(pa.array(keep, pa.bool_()))
