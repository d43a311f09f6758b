"""Backfill of an interval: results computed elsewhere become net changes of the table.

A job of its own computed the interval from the inputs as of some versions. By the time the writer
takes the results over, the stream has gone on. What came meanwhile, and what the job could not
know (rows that are expired), is computed here, by the same transform; all the rest is compared as
it is. One commit holds the difference, and nothing is committed when there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.model.windows import Window
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.relate import minus
from penstock.runtime.delta.source import new_batches, read_files
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates.late import EXPIRED
from penstock.runtime.kinds.reconcile import Span, compute_spans, joined_spans
from penstock.runtime.times import micros_of, moment

if TYPE_CHECKING:
    from penstock.runtime.kinds.timed import TimedFollower

__all__ = ["backfill_timed"]


def backfill_timed(table: TimedFollower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the results of ``[start, end)``; returns what was done, for the operator."""
    start, end = int(arguments["start"]), int(arguments["end"])
    step = table.kind.us("every") if isinstance(table.kind, Window) else 1
    if end - step >= table.limit():
        raise UsageError(
            f"{table.name}: results from {moment(table.limit()).isoformat()} on are still open.",
            remedy="End the interval there, or wait.",
        )
    table.reconcile()  # late rows count first: the batch counts them too
    expired = late_lines.lines(table.late_table, EXPIRED)
    own = _unknown_to_the_job(table, arguments["inputs"], expired, start, end)
    built = read_files([Path(f) for f in arguments["files"]], table.writer.schema)
    new = pa.concat_tables([table.writer.schema.empty_table(), *built])
    upserts = table.upserts or table.spans()
    old = upserts.rows_between(start, end)
    if own:
        new = pa.concat_tables(
            [_outside(table, new, own), *(compute_spans(table, [s], expired) for s in own)]
        )
    net = Change(minus(new, old), minus(old, new))
    if net.rows:
        info = {"operation": "PENSTOCK BACKFILL", "start": start, "end": end,
                "who": arguments["who"], "why": arguments["why"]}  # fmt: skip
        table.commit(upserts.rewrite(net), net, info=info)
        table.outcomes.flush(now=True)
    return {
        "results": new.num_rows,
        "changed": net.rows,
        "computed_again": len(own),
        "version": table.writer.log.version,
    }


def _unknown_to_the_job(
    table: TimedFollower, inputs: dict[str, int], expired: pa.Table, start: int, end: int
) -> list[Span]:
    """Results that rows touch which came after the job's versions, and those with expired rows."""
    found: set[tuple[int, int]] = set()
    for argument, given in table.inputs.items():
        at, reached = inputs[given.name], table.positions[given.name]
        for batch in new_batches(given.source, at, 1 << 62, reached):
            change = batch.change(given.source.schema)
            times = pa.concat_tables(change.both)[table.times[argument]].drop_null()
            found |= _touched(table, argument, micros_of(times), start, end)
    if expired.num_rows:
        points = expired["window_start"].cast(pa.int64()).to_pylist()
        found |= {(p, p) for p in points if start <= p < end}
    return joined_spans(sorted(found))


def _touched(
    table: TimedFollower, argument: str, times: np.ndarray, start: int, end: int
) -> set[tuple[int, int]]:
    geometry = table.geometry
    if isinstance(table.kind, Window):
        points = np.concatenate(geometry.own(argument, times)) if len(times) else times
        return {(int(p), int(p)) for p in np.unique(points) if start <= p < end}
    first, last = times - geometry.back(argument), times + geometry.ahead(argument)
    near = (last >= start) & (first < end)
    return {
        (max(int(a), start), min(int(b), end - 1))
        for a, b in zip(first[near], last[near], strict=True)
    }


def _outside(table: TimedFollower, rows: pa.Table, spans: list[Span]) -> pa.Table:
    points = micros_of(rows[table.kind.point])
    keep = np.ones(len(points), bool)
    for span in spans:
        keep &= (points < span.first) | (points > span.last)
    return rows.filter(pa.array(keep))
