"""Reconcile: late rows count, at last.

Only the results that late rows touch are computed again, by the same transform, from the input
itself at the version the table has taken in; only rows that differ are written. Afterwards the
table is what a batch over everything would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.model.windows import Window
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.relate import minus
from penstock.runtime.delta.source import rows_between
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates.late import EXPIRED, LATE
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.mapping import Calculation
from penstock.runtime.times import NEVER, micros_of, moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.runtime.kinds.timed import TimedFollower

__all__ = ["Span", "compute_spans", "count_in", "joined_spans", "reconcile_timed"]

_CHUNK = 64  # spans computed at once: bounds what is in memory


@dataclass(frozen=True)
class Span:
    """Points ``first`` to ``last``, both included."""

    first: int
    last: int


def reconcile_timed(table: TimedFollower) -> dict[str, Any]:
    """Returns what was done, for the operator."""
    table.settle(now=True)
    pending = late_lines.lines(table.late_table, LATE)
    if pending.num_rows == 0:
        return {"late": 0, "results": 0, "changed": 0}
    expired = late_lines.lines(table.late_table, EXPIRED)
    spans = _touched(table, pending)
    net = Change(table.writer.schema.empty_table(), table.writer.schema.empty_table())
    upserts = table.upserts or table.spans()
    for chunk in _chunks(_apart(table, spans, expired)):
        new = compute_spans(table, chunk, expired)
        old = _within(table, upserts.rows_between(chunk[0].first, chunk[-1].last + 1), chunk)
        assert net.gone is not None  # noqa: S101
        net = Change(
            pa.concat_tables([net.added, minus(new, old)]),
            pa.concat_tables([net.gone, minus(old, new)]),
        )
    count_in(table, pending)
    table.apart.setdefault("late", []).extend(late_lines.reconciled(table.late_table))
    table.commit(upserts.rewrite(net), net, info={"operation": "PENSTOCK RECONCILE"})
    table.outcomes.flush(now=True)
    return {"late": pending.num_rows, "results": len(spans), "changed": net.rows}


def count_in(table: Any, pending: pa.Table) -> None:
    """Late rows are counted now."""
    points = pending["window_start"].cast(pa.int64()).to_pylist()
    for line, point in zip(pending.select(["source", "change"]).to_pylist(), points, strict=True):
        sign = 1 if line["change"] == "insert" else -1
        table.tally.add(line["source"], Outcome.LATE, -sign, point)
        table.tally.add(line["source"], Outcome.COUNTED, sign, point)


def _touched(table: TimedFollower, pending: pa.Table) -> list[Span]:
    """The spans of points that late rows touch, apart from each other and in order."""
    sealed = table.sealed()
    found: set[tuple[int, int]] = set()
    by_name = {given.name: argument for argument, given in table.inputs.items()}
    points = pending["window_start"].cast(pa.int64()).to_pylist()
    moments = pending["event_time"].cast(pa.int64()).to_pylist()
    for name, point, at in zip(pending["source"].to_pylist(), points, moments, strict=True):
        if isinstance(table.kind, Window):
            found.add((point, point))
        else:
            argument = by_name[name]
            last = min(at + table.geometry.ahead(argument), sealed - 1)
            found.add((at - table.geometry.back(argument), last))
    return joined_spans(sorted(found))


def joined_spans(found: list[tuple[int, int]]) -> list[Span]:
    """Spans in order, those that overlap as one."""
    spans: list[Span] = []
    for first, last in found:
        if spans and first <= spans[-1].last:
            spans[-1] = Span(spans[-1].first, max(last, spans[-1].last))
        else:
            spans.append(Span(first, last))
    return spans


def _apart(table: TimedFollower, spans: list[Span], expired: pa.Table) -> Iterator[list[Span]]:
    """Runs of spans that can be computed together: windows with expired rows come alone."""
    lonely: set[int] = set()
    if isinstance(table.kind, Window) and expired.num_rows:
        lonely = set(expired["window_start"].cast(pa.int64()).to_pylist())
    run: list[Span] = []
    for span in spans:
        if span.first in lonely:
            yield run
            yield [span]
            run = []
        else:
            run.append(span)
    yield run


def _chunks(runs: Iterator[list[Span]]) -> Iterator[list[Span]]:
    for run in runs:
        for start in range(0, len(run), _CHUNK):
            yield run[start : start + _CHUNK]


def compute_spans(table: TimedFollower, spans: list[Span], expired: pa.Table) -> pa.Table:
    """The results of these spans, from the inputs as the table has taken them in."""
    geometry = table.geometry
    rows: dict[str, pa.Table] = {}
    for argument, given in table.inputs.items():
        on = table.times[argument]
        ahead, back = geometry.ahead(argument), geometry.back(argument)
        start, end = spans[0].first - ahead, spans[-1].last + back + 1
        position = table.positions[given.name]
        found = rows_between(given.source, position, on, moment(start), moment(end))
        found = found.filter(pa.array(_near(found[on], spans, ahead, back)))
        if isinstance(table.kind, Window):
            mine = np.isin(
                expired["window_start"].cast(pa.int64()).to_numpy(), [s.first for s in spans]
            )
            found = late_lines.excused(found, expired.filter(pa.array(mine)), given.name)
        else:
            found = late_lines.excused(found, expired, given.name)
        rows[argument] = sound(found, table.condemned) if given is table.first else found
    if rows[table.first.argument].num_rows == 0:
        return table.writer.schema.empty_table()

    def build(**frames: DataFrame) -> DataFrame:
        out: DataFrame = table.context.definition(geometry.rows(frames, _inside(spans)))
        return out

    schemas = {argument: found.schema for argument, found in rows.items()}
    session = table.context.session
    calculation = Calculation(session, schemas, build, table.bare, table.name)
    out, broken = calculation.around(table.first.argument, **rows)
    table.condemn(rows[table.first.argument], broken, NEVER)
    return conform(table.flagged(out), table.writer.schema)


def _near(column: pa.ChunkedArray, spans: list[Span], ahead: int, back: int) -> np.ndarray:
    """Which times touch any of the spans."""
    times = micros_of(column)
    firsts = np.array([span.first for span in spans], dtype=np.int64)
    lasts = np.maximum.accumulate(np.array([span.last for span in spans], dtype=np.int64))
    # the last span that begins at or before the highest point the row touches
    index = np.searchsorted(firsts, times + ahead, side="right") - 1
    return (index >= 0) & (lasts[np.maximum(index, 0)] >= times - back)


def _within(table: TimedFollower, rows: pa.Table, spans: list[Span]) -> pa.Table:
    return rows.filter(pa.array(_near(rows[table.kind.point], spans, 0, 0)))


def _inside(spans: list[Span]) -> Any:
    def condition(point: Column) -> Column:
        if all(span.first == span.last for span in spans):
            return point.isin([span.first for span in spans])
        tests = [point.between(span.first, span.last) for span in spans]
        return reduce(lambda a, b: a | b, tests)

    return condition
