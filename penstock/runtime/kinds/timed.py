"""Timed tables by slices: no state store, nothing to migrate or to lose.

How it works: the follower keeps the input rows that may still matter to a result that can change.
Each batch moves the watermark; the results it passes, and those the batch touches where they may
be updated, are computed by the same transform, in its batch form, from the rows kept, and written
as the difference to what is there. What is kept is a function of the inputs' versions and the
watermark, and both are committed with every result, so after a restart the rows are read again
and the table goes on where it was. A row that comes too late for a result is listed as late for
it; ``reconcile`` computes those results again from the input itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.windows import Timed
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform, write_arrow
from penstock.runtime.delta.relate import among, distinct, matching, minus
from penstock.runtime.delta.source import Batch, rows_between
from penstock.runtime.delta.upsert import IS_FINAL, Spans
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.late import EXPIRED, LATE
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.runtime.kinds.geometry import geometry_of, times_of
from penstock.runtime.kinds.mapping import Calculation
from penstock.runtime.kinds.passed import passes_on
from penstock.runtime.times import NEVER, latest, micros_of, moment, stamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["WATERMARK", "TimedFollower"]

WATERMARK = "watermark"
_EVER = 1 << 62
_FROM, _TO = "_penstock_from", "_penstock_to"


class TimedFollower(Follower):
    """Windows, sliding windows and interval joins."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input]) -> None:
        super().__init__(context, inputs)
        self.kind = cast(Timed, context.definition.kind)
        self.geometry = geometry_of(self.kind, list(self.inputs))
        self.times = times_of(self.kind, list(self.inputs))
        self.clocks = {a: self.writer.position(_clock(i)) for a, i in self.inputs.items()}
        self.condemned = self.condemned_before(self.first)
        self.bare = _without_flag(self.writer.schema) if self.kind.updates else self.writer.schema
        schemas = {a: i.source.schema for a, i in self.inputs.items()}
        self.calculation = Calculation(context.session, schemas, self._slice, self.bare, self.name)
        self.keyed = self.kind.updates and bool(self.geometry.by) and self._keeps_keys()
        self.upserts: Spans | None = None
        if self.kind.updates or self.kind.us("updatable_for") or self._changing:
            self.upserts = self.spans()
        self.late = 0
        self.open_rows = {a: self._open_rows_again(a) for a in self.inputs}

    @property
    def _changing(self) -> bool:
        return any(given.changes for given in self.inputs.values())

    def spans(self) -> Spans:
        return Spans(
            self.writer.path,
            self.writer.log.version,
            self.writer.schema,
            self.context.definition.keys,
            self.kind.point,
        )

    # --- time -----------------------------------------------------------------------------
    @property
    def watermark(self) -> int | None:
        """The newest time of the slower input, less the lateness."""
        known = [clock for clock in self.clocks.values() if clock is not None]
        if len(known) < len(self.clocks):
            return None
        return min(known) - self.kind.us("lateness")

    def limit(self) -> int:
        """The first point whose result is not final."""
        return NEVER if self.watermark is None else self.geometry.limit(self.watermark)

    def sealed(self) -> int:
        """The first point whose result rows can still change in-band."""
        return NEVER if self.watermark is None else self.limit() - self.kind.us("updatable_for")

    def extra_positions(self) -> dict[str, int]:
        clocks = {
            _clock(given): clock
            for argument, given in self.inputs.items()
            if (clock := self.clocks[argument]) is not None
        }
        return clocks | ({} if self.watermark is None else {WATERMARK: self.watermark})

    @property
    def alarm(self) -> str:
        """Also when results wait for an input that has gone silent."""
        clocks = {self.inputs[a].name: clock for a, clock in self.clocks.items()}
        known = [clock for clock in clocks.values() if clock is not None]
        silent = [
            name
            for name, clock in clocks.items()
            if known and (clock is None or max(known) - clock > _SILENT)
        ]
        if silent:
            return f"results wait for {', '.join(silent)}: no rows as new as the other input's"
        return super().alarm

    # --- rows kept, from nothing but the tables --------------------------------------------
    def _open_rows_again(self, argument: str) -> pa.Table:
        """The rows that may matter to results not sealed yet."""
        given = self.inputs[argument]
        start = self._horizon(argument)
        since = None if start <= NEVER // 2 else moment(start)
        rows = rows_between(given.source, self.positions[given.name], self.times[argument], since)
        rows = rows.filter(pc.is_valid(rows[self.times[argument]]))
        if self.geometry.weight == 1:
            expired = late_lines.lines(self.late_table, EXPIRED)
            rows = late_lines.excused(rows, expired, given.name)
        return sound(rows, self.condemned) if given is self.first else rows

    def _horizon(self, argument: str) -> int:
        return self.sealed() - self.geometry.ahead(argument)

    # --- one batch ------------------------------------------------------------------------
    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        argument = given.argument
        limit, sealed = self.limit(), self.sealed()
        added = self._accepted(given, change.added, "insert")
        gone = change.gone if change.gone is not None else change.added.slice(0, 0)
        gone = self._accepted(given, gone, "delete")
        kept = pa.concat_tables([self.open_rows[argument], added])
        self.open_rows[argument] = minus(kept, gone) if gone.num_rows else kept
        newest = latest(change.added[self.times[argument]])
        if newest is not None:
            before = self.clocks[argument]
            self.clocks[argument] = newest if before is None else max(newest, before)
        self.positions[given.name] = batch.to
        moved = pa.concat_tables([added, gone])
        self._write(limit, sealed, argument, moved, batch.count)

    def _accepted(self, given: Input, rows: pa.Table, change: str) -> pa.Table:
        """The rows that count for some result in-band; the others are listed as late."""
        argument, sign = given.argument, 1 if change == "insert" else -1
        if given is self.first:
            known = rows.num_rows
            rows = sound(rows, self.condemned)
            same = sign * (known - rows.num_rows) * self.geometry.weight
            self.tally.add(given.name, Outcome.QUARANTINED, same)
        timed = rows.filter(pc.is_valid(rows[self.times[argument]]))
        timeless = rows.num_rows - timed.num_rows
        self.tally.add(given.name, Outcome.FILTERED, sign * timeless * self.geometry.weight)
        times = micros_of(timed[self.times[argument]])
        keep = times >= self._horizon(argument)
        for points in self.geometry.own(argument, times):
            late = points < self.sealed()
            expired = late & self._too_late(points) & (sign > 0)
            within = late & ~expired
            self._account(given, timed, points, within, outcome=Outcome.LATE, change=change)
            self._account(given, timed, points, expired, outcome=Outcome.EXPIRED, change=change)
            for point, count in zip(*np.unique(points[~late], return_counts=True), strict=True):
                self.tally.add(given.name, Outcome.COUNTED, sign * int(count), int(point))
            if self.geometry.weight == 1:
                keep &= ~expired
        return timed.filter(pa.array(keep))

    def _too_late(self, points: np.ndarray) -> np.ndarray:
        if self.watermark is None:
            return np.zeros(len(points), bool)
        until = points + self.geometry.reach + self.kind.us("reconcile_within")
        return until <= self.watermark

    def _account(
        self,
        given: Input,
        rows: pa.Table,
        points: np.ndarray,
        chosen: np.ndarray,
        *,
        outcome: Outcome,
        change: str,
    ) -> None:
        if not chosen.any():
            return
        sign = 1 if change == "insert" else -1
        for point, count in zip(*np.unique(points[chosen], return_counts=True), strict=True):
            self.tally.add(given.name, outcome, sign * int(count), int(point))
        self.late += int(chosen.sum())
        found = late_lines.listed(
            given.name,
            rows.filter(pa.array(chosen)),
            self.times[given.argument],
            points[chosen],
            status=EXPIRED if outcome is Outcome.EXPIRED else LATE,
            change=change,
            watermark=self.watermark or 0,
        )
        self.set_late(found)

    def _lowest(self, argument: str, rows: pa.Table, sealed: int) -> int:
        """The first point that may change in-band because of these rows."""
        if rows.num_rows == 0:
            return _EVER
        oldest = int(micros_of(rows[self.times[argument]]).min())
        return max(sealed, oldest - self.geometry.back(argument))

    def _write(self, limit: int, sealed: int, argument: str, moved: pa.Table, count: int) -> None:
        """Compute what became final, and what was touched where that is shown, and commit it."""
        closes, touched = self.limit(), self._lowest(argument, moved, sealed)
        start = min(limit, touched) if self.kind.updates or touched < limit else limit
        end = _EVER if self.kind.updates else closes
        if start >= end or (self.kind.updates and touched == _EVER and closes <= limit):
            self._trim()
            return
        if self.upserts is None:
            rows = self._computed(start, end, sealed)
            self.commit(write_arrow(rows, self.writer.path), Change(rows), info={"rows_in": count})
        else:
            old = self.upserts.rows_between(max(start, -_FAR), min(end, _FAR))
            if self.keyed:
                rows = self._again(old, touched, moved, sealed)
            else:
                rows = self._computed(start, end, sealed)
            net = Change(minus(rows, old), minus(old, rows))
            self.commit(self.upserts.rewrite(net), net, info={"rows_in": count})
        self._trim()

    def _trim(self) -> None:
        """Let go of rows that matter to nothing any more."""
        for argument, rows in self.open_rows.items():
            horizon = self._horizon(argument)
            if rows.num_rows and horizon > NEVER // 2:
                kept = rows.filter(pc.greater_equal(rows[self.times[argument]], stamp(horizon)))
                self.open_rows[argument] = kept

    # --- computing ------------------------------------------------------------------------
    def _keeps_keys(self) -> bool:
        """Whether a row touches results of its own key alone: the key comes out as it went in."""
        session = self.context.session
        empty = {
            a: session.createDataFrame(i.source.schema.empty_table())
            for a, i in self.inputs.items()
        }
        given = self.geometry.rows(empty, None)
        return passes_on(self.context.definition, given, self.geometry.by)

    def _again(self, old: pa.Table, touched: int, moved: pa.Table, sealed: int) -> pa.Table:
        """What stands in the place of results: those of keys that moved computed, others as known.

        Of the others no more can change than whether they are final.
        """
        keys = distinct(moved, self.geometry.by)
        new = self._computed(touched, _EVER, sealed, keys)
        moving = among(old, keys) & (micros_of(old[self.kind.point]) >= touched)
        others = old.filter(pa.array(~moving)).drop_columns([IS_FINAL])
        return pa.concat_tables([new, self.flagged(others)])

    def _computed(
        self, start: int, end: int, sealed: int, keys: pa.Table | None = None
    ) -> pa.Table:
        """The results with points in ``[start, end)``, from the rows kept.

        Args:
            sealed: what could still change before the batch: up to there rows were counted.
            keys: whose results; None: all.
        """
        needed = {a: self._needed(a, rows, start, end) for a, rows in self.open_rows.items()}
        first = self.first.argument
        if self.geometry.by:
            needed[first] = self._of_keys(needed[first], start, end, keys)
        if needed[first].num_rows == 0:
            return self.writer.schema.empty_table()
        bounds = {**needed, first: _bounded(needed[first], start, end)}
        # A row is tried alone for every result it may be in, not only for those of this batch.
        alone = _bounded(needed[first], NEVER, _EVER)
        out, broken = self.calculation.around(first, alone, **bounds)
        self.condemn(needed[first], broken, sealed)
        return self.flagged(out)

    def _needed(self, argument: str, rows: pa.Table, start: int, end: int) -> pa.Table:
        on = rows[self.times[argument]]
        low, high = start - self.geometry.ahead(argument), end + self.geometry.back(argument)
        if low > -_FAR:
            rows = rows.filter(pc.greater_equal(on, stamp(low)))
        if high < _FAR:
            rows = rows.filter(pc.less(rows[self.times[argument]], stamp(high)))
        return rows

    def _of_keys(self, rows: pa.Table, start: int, end: int, keys: pa.Table | None) -> pa.Table:
        """Rows of the keys that have a result there: hours are kept, and few keys move at once."""
        times = micros_of(rows[self.kind.on])
        anchors = rows.filter(pa.array((times >= start) & (times < end)))
        concerned = distinct(anchors, self.geometry.by)
        return matching(rows, concerned if keys is None else matching(concerned, keys))

    def _slice(self, **frames: DataFrame) -> DataFrame:
        """The transform over the results a batch changes.

        Which these are travels as columns: a literal would change the plan, and Spark would
        compile it anew for every batch.
        """
        given = self.geometry.rows(
            frames, lambda point: (point >= F.col(_FROM)) & (point < F.col(_TO))
        )
        out: DataFrame = self.context.definition(given.drop(_FROM, _TO))
        return out

    def flagged(self, rows: pa.Table) -> pa.Table:
        """With the word whether a result is final, where the table has it."""
        if not self.kind.updates:
            return rows
        final = pa.array(micros_of(rows[self.kind.point]) < self.limit())
        return conform(rows.append_column(IS_FINAL, final), self.writer.schema)

    def condemn(self, rows: pa.Table, broken: list[tuple[int, str]], sealed: int) -> None:
        """Rows that break the transform leave every result they were counted in."""
        if not broken:
            return
        given = self.first
        apart = rows.take(pa.array([index for index, _ in broken], pa.int64()))
        bad = quarantine.broken_rows(given.name, apart, [error for _, error in broken])
        self.set_apart(given, bad, count=False)
        for points in self.geometry.own(given.argument, micros_of(apart[self.kind.on])):
            for point in points[points >= sealed].tolist():
                self.tally.add(given.name, Outcome.COUNTED, -1, point)
                self.tally.add(given.name, Outcome.QUARANTINED, 1, point)
        self.condemned.update(bad["row_id"].to_pylist())
        self.open_rows[given.argument] = sound(self.open_rows[given.argument], self.condemned)

    # --- late rows ------------------------------------------------------------------------
    def reconcile(self) -> dict[str, Any]:
        """Make late rows count: compute what they touch again, write what differs."""
        from penstock.runtime.kinds.reconcile import reconcile_timed

        return reconcile_timed(self)

    def status(self) -> dict[str, Any]:
        at = self.watermark
        return {
            **super().status(),
            "watermark": None if at is None else moment(at).isoformat(),
            "open_rows": sum(rows.num_rows for rows in self.open_rows.values()),
            "late": self.late,
        }


_SILENT = 15 * 60 * 1_000_000  # how far one input may lag behind the other, in microseconds
_FAR = 1 << 61  # beyond any real time


def _clock(given: Input) -> str:
    return f"clock:{given.name}"


def _bounded(rows: pa.Table, start: int, end: int) -> pa.Table:
    size = rows.num_rows
    rows = rows.append_column(_FROM, pa.repeat(pa.scalar(start, pa.int64()), size))
    return rows.append_column(_TO, pa.repeat(pa.scalar(end, pa.int64()), size))


def _without_flag(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != IS_FINAL])
