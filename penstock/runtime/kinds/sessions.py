"""Session tables: rows of a key that follow each other closely.

The follower keeps the rows of sessions that are still open. A row is on time unless it is older
than the watermark: then it may belong to a session that is written already, and is late. A session
is written when the watermark has reached its end.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.windows import Session
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.relate import connection, distinct, matching, minus, same
from penstock.runtime.delta.source import Batch, new_batches, rows_between
from penstock.runtime.delta.upsert import Spans
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.late import EXPIRED, LATE
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.folds import DUCKDB
from penstock.runtime.kinds.follow import CATCH_UP_ROWS, Follower, Input, TableContext
from penstock.runtime.kinds.mapping import Calculation
from penstock.runtime.kinds.passed import passes_on, require_beginnings
from penstock.runtime.kinds.reconcile import count_in
from penstock.runtime.kinds.timed import WATERMARK
from penstock.runtime.kinds.windows import assign_sessions
from penstock.runtime.times import NEVER, latest, micros_of, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SessionFollower"]

_HORIZON = "horizon"  # the oldest row of an open session


class SessionFollower(Follower):
    """One session table over one input that only grows."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input]) -> None:
        super().__init__(context, inputs)
        self.kind = cast(Session, context.definition.kind)
        self.clock = self.writer.position(f"clock:{self.first.name}")
        self._condemned = self.condemned_before(self.first)
        self.calculation = Calculation(
            context.session,
            {self.first.argument: self.first.source.schema},
            self._sessions,
            self.writer.schema,
            self.name,
        )
        self._keyed = self._keeps_keys()
        self.late = 0
        self._listed = late_lines.SCHEMA.empty_table()  # by the batch in hand
        self.open_rows = self._open_rows_again()

    @property
    def watermark(self) -> int | None:
        return None if self.clock is None else self.clock - self.kind.us("lateness")

    def extra_positions(self) -> dict[str, int]:
        if self.clock is None or self.watermark is None:
            return {}
        # Everything that is open began at or after this; a closed table begins at the watermark.
        oldest = pc.min(self.open_rows[self.kind.on])
        horizon = oldest.cast(pa.int64()).as_py() if oldest.is_valid else self.watermark
        clock = f"clock:{self.first.name}"
        return {clock: self.clock, WATERMARK: self.watermark, _HORIZON: horizon}

    # --- which sessions are open ----------------------------------------------------------
    def _open_rows_again(self) -> pa.Table:
        """The rows of sessions that were open at the last commit."""
        horizon, given = self.writer.position(_HORIZON), self.first
        if horizon is None or self.watermark is None:
            return given.source.schema.empty_table()
        position = self.positions[given.name]
        rows = rows_between(given.source, position, self.kind.on, moment(horizon))
        rows = self._counted(rows, late_lines.lines(self.late_table))
        return self._split(rows, self.watermark)[1]

    def _counted(self, rows: pa.Table, listed: pa.Table) -> pa.Table:
        """Rows of the input less those set apart."""
        rows = rows.filter(pc.is_valid(rows[self.kind.on]))
        return sound(late_lines.excused(rows, listed, self.first.name), self._condemned)

    def _split(self, rows: pa.Table, watermark: int) -> tuple[pa.Table, pa.Table]:
        """Rows of sessions that have ended by the watermark, and rows of those that have not."""
        ended = pa.array(self._reaches(rows)[1] <= watermark)
        return rows.filter(ended), rows.filter(pc.invert(ended))

    def _reaches(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """When the session of each row begins and ends, as far as these rows tell."""
        if rows.num_rows == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        gap = self.kind.us("gap")
        times = rows[self.kind.on].cast(pa.int64())
        keyed = rows.select(list(self.kind.by)).append_column("_t", times)
        placed = keyed.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))  # noqa: F841
        by = DUCKDB.names(self.kind.by)
        found = (
            connection()
            .sql(
                f"""with gaps as (
                select *, _t - lag(_t) over (partition by {by} order by _t) as _gap from placed),
            numbered as (
                select *, sum(case when _gap is null or _gap >= {gap} then 1 else 0 end)
                    over (partition by {by} order by _t) as _session from gaps)
            select min(_t) over whole as _start, max(_t) over whole + {gap} as _end
            from numbered window whole as (partition by {by}, _session) order by _row"""  # noqa: S608
            )
            .to_arrow_table()
        )
        return found["_start"].to_numpy(), found["_end"].to_numpy()

    # --- one batch ------------------------------------------------------------------------
    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        gone = change.gone if change.gone is not None else change.added.slice(0, 0)
        if gone.num_rows:
            self.reconcile()  # while what is late is still in the input as it was listed
        self._listed = late_lines.SCHEMA.empty_table()
        self._keep(given, change.added)
        self.positions[given.name] = batch.to
        went = self._went(given, gone) if gone.num_rows else gone
        if self.watermark is None:
            self.open_rows = minus(self.open_rows, went)
            return
        spans, net = None, Change(self.writer.schema.empty_table())
        if went.num_rows:  # a correction: the sessions of these keys are computed again
            spans = self._spans()
            net = self._again(spans, distinct(went, self.kind.by), went[self.kind.on])
        ended, self.open_rows = self._split(self.open_rows, self.watermark)
        if not ended.num_rows and not net.rows:
            return
        if ended.num_rows:
            net = Change(pa.concat_tables([net.added, self._computed(ended)]), net.gone)
        adds = spans.rewrite(net) if spans else write_arrow(net.added, self.writer.path)
        self.commit(adds, net, info={"rows_in": batch.count})

    def _keep(self, given: Input, rows: pa.Table) -> None:
        """Take rows in, and move the clock."""
        known = sound(rows, self._condemned)
        self.tally.add(given.name, Outcome.QUARANTINED, rows.num_rows - known.num_rows)
        timed = known.filter(pc.is_valid(known[self.kind.on]))
        self.tally.add(given.name, Outcome.FILTERED, known.num_rows - timed.num_rows)
        self.open_rows = pa.concat_tables([self.open_rows, self._accepted(given, timed)])
        newest = latest(timed[self.kind.on])
        if newest is not None:
            self.clock = newest if self.clock is None else max(newest, self.clock)

    def _went(self, given: Input, gone: pa.Table) -> pa.Table:
        """The rows that counted, of those that went."""
        known = sound(gone, self._condemned)
        self.tally.add(given.name, Outcome.QUARANTINED, known.num_rows - gone.num_rows)
        timed = known.filter(pc.is_valid(known[self.kind.on]))
        self.tally.add(given.name, Outcome.FILTERED, timed.num_rows - known.num_rows)
        counted = late_lines.excused(timed, late_lines.lines(self.late_table, EXPIRED), given.name)
        self.tally.add(given.name, Outcome.EXPIRED, counted.num_rows - timed.num_rows)
        self.tally.add(given.name, Outcome.COUNTED, -counted.num_rows)
        return counted

    def _accepted(self, given: Input, rows: pa.Table) -> pa.Table:
        """The rows that are on time; the others are listed."""
        times = micros_of(rows[self.kind.on])
        bound = NEVER if self.watermark is None else self.watermark
        late = times < bound
        end = times + self.kind.us("gap") + self.kind.us("reconcile_within")
        expired = late & (end <= bound)
        self.tally.add(given.name, Outcome.COUNTED, int((~late).sum()))
        for chosen, outcome, status in (
            (late & ~expired, Outcome.LATE, LATE),
            (expired, Outcome.EXPIRED, EXPIRED),
        ):
            if not chosen.any():
                continue
            self.late += int(chosen.sum())
            self.tally.add(given.name, outcome, int(chosen.sum()))
            listed = late_lines.listed(
                given.name,
                rows.filter(pa.array(chosen)),
                self.kind.on,
                times[chosen],
                status=status,
                change="insert",
                watermark=bound,
            )
            self._listed = pa.concat_tables([self._listed, listed])
            self.set_late(listed)
        return rows.filter(pa.array(~late))

    def _sessions(self, **frames: DataFrame) -> DataFrame:
        (rows,) = frames.values()
        out: DataFrame = self.context.definition(assign_sessions(rows, self.kind))
        return out

    def _computed(self, rows: pa.Table) -> pa.Table:
        out, broken = self.calculation.around(self.first.argument, **{self.first.argument: rows})
        if broken:
            apart = rows.take(pa.array([index for index, _ in broken], pa.int64()))
            errors = [error for _, error in broken]
            bad = quarantine.broken_rows(self.first.name, apart, errors)
            self.set_apart(self.first, bad)
            self.tally.add(self.first.name, Outcome.COUNTED, -bad.num_rows)
            self._condemned.update(bad["row_id"].to_pylist())
        return out

    # --- late rows ------------------------------------------------------------------------
    def reconcile(self) -> dict[str, Any]:
        """Compute the sessions again that late rows belong to, or join, or part from each other."""
        self.settle(now=True)
        self._listed = late_lines.SCHEMA.empty_table()
        pending = late_lines.lines(self.late_table, LATE)
        if pending.num_rows == 0 or self.watermark is None:
            return {"late": 0, "results": 0, "changed": 0}
        spans, late = self._spans(), self._late_keys(pending)
        net = self._again(spans, late, pending["event_time"])
        count_in(self, _pointless(pending))
        self.apart.setdefault("late", []).extend(late_lines.reconciled(self.late_table))
        self.commit(spans.rewrite(net), net, info={"operation": "PENSTOCK RECONCILE"})
        self.outcomes.flush(now=True)
        return {"late": pending.num_rows, "results": late.num_rows, "changed": net.rows}

    def _spans(self) -> Spans:
        return Spans(
            self.writer.path,
            self.writer.log.version,
            self.writer.schema,
            self.context.definition.keys,
            self.kind.point,
        )

    def _again(self, spans: Spans, late: pa.Table, times: pa.ChunkedArray) -> Change:
        """What differs in the sessions of some keys, whose rows of these times came or went."""
        assert self.watermark is not None  # noqa: S101
        bounds = pc.min_max(times.cast(pa.int64())).as_py()
        if self._keyed:
            old = matching(spans.rows_between(None, None), late)
            old = old.filter(pa.array(micros_of(old["window_end"]) > bounds["min"]))
            mine = self._rows_since(late, old, bounds["min"])
            others = matching(self.open_rows, late, within=False)
        else:  # whose sessions are whose cannot be told from the results, only when they begin
            low, high = self._touched(late, bounds["min"], bounds["max"])
            old, mine = spans.rows_between(low, high), self._begun_between(low, high)
            starts, _ = self._reaches(self.open_rows)
            others = self.open_rows.filter(pa.array((starts < low) | (starts >= high)))
        ended, still_open = self._split(mine, self.watermark)
        new = self._computed(ended) if ended.num_rows else self.writer.schema.empty_table()
        if not self._keyed:
            require_beginnings(self.name, new["window_start"], ended[self.kind.on])
        self.open_rows = pa.concat_tables([others, sound(still_open, self._condemned)])
        return Change(minus(new, old), minus(old, new))

    def _touched(self, late: pa.Table, oldest: int, newest: int) -> tuple[int, int]:
        """Between which moments the sessions begin, or began, that late rows change.

        A session of theirs begins no earlier than rows lead back from the oldest; one that they
        join to it, or part from it, begins less than a gap after the newest.
        """
        bounds = late.append_column("_t", pa.array([oldest] * late.num_rows, pa.int64()))
        low = int(pc.min(self._chained(late, bounds)["_t"]).as_py())
        return low, newest + self.kind.us("gap")

    def _begun_between(self, low: int, high: int) -> pa.Table:
        """The rows of whole sessions that begin in ``[low, high)``, of all keys."""
        assert self.clock is not None  # noqa: S101
        # What is less than a gap older tells which rows go on with a session that began before.
        rows, until = self._counted_between(low - self.kind.us("gap") + 1, high), high
        while True:
            starts, ends = self._reaches(rows)
            mine = (starts >= low) & (starts < high)
            reach = int(ends[mine].max(initial=high))
            if reach <= until:
                return rows.filter(pa.array(mine))
            # Twice as far, lest it be read in many bits, but not beyond what there is.
            further = max(reach, min(2 * until - low, self.clock + 1))
            rows = pa.concat_tables([rows, self._counted_between(until, further)])
            until = further

    def layout(self) -> Spans:
        return self._spans()

    def touched_since(self, inputs: Mapping[str, int], version: int) -> pa.Table | None:
        """Keys whose sessions were written again; which is what late rows do when they count."""
        by, parts = list(self.kind.by), [self.writer.schema.empty_table()]
        for batch in new_batches(self.writer, version, CATCH_UP_ROWS):
            change = batch.change(self.writer.schema)
            parts += change.both if change.gone is not None and change.gone.num_rows else []
        return distinct(pa.concat_tables(parts), by)

    def _late_keys(self, pending: pa.Table) -> pa.Table:
        """The keys of late rows, found in the input by the rows' ids."""
        ids = set(pending["row_id"].to_pylist())
        start = pc.min(pending["event_time"]).as_py()
        end = pc.max(pending["event_time"]).as_py() + dt.timedelta(microseconds=1)
        given = self.first
        near = rows_between(given.source, self.positions[given.name], self.kind.on, start, end)
        found = [quarantine.row_id(row) in ids for row in near.to_pylist()]
        return distinct(near.filter(pa.array(found, pa.bool_())), self.kind.by)

    def _rows_since(self, late: pa.Table, old: pa.Table, oldest: int) -> pa.Table:
        """Each key's rows from the first session on that a late row may belong to."""
        by, on = list(self.kind.by), DUCKDB.name(self.kind.on)
        names = DUCKDB.names(by)
        opened = matching(self.open_rows, late)  # noqa: F841 - found by its name
        bounds = (
            connection()
            .sql(
                f"""select {names}, min(_t) as _t from (
                select {names}, {oldest} as _t from late
                union all select {names}, epoch_us(window_start) from old
                union all select {names}, epoch_us({on}) from opened
            ) group by {names}"""  # noqa: S608
            )
            .to_arrow_table()
        )
        bounds = self._chained(late, bounds)
        rows = matching(self._counted_between(int(pc.min(bounds["_t"]).as_py()), None), late)
        times = rows[self.kind.on].cast(pa.int64())
        numbers = pa.array(range(rows.num_rows), pa.int64())
        placed = rows.select(by).append_column("_row", numbers).append_column("_at", times)  # noqa: F841
        kept = connection().sql(
            f"""select p._row from placed p join bounds b on {same("p", "b", by)}
                where p._at >= b._t order by 1"""  # noqa: S608
        )
        return rows.take(kept.to_arrow_table()["_row"])

    def _keeps_keys(self) -> bool:
        """Whether a key's sessions are named by it: the transform passes it on as it is."""
        empty = self.first.source.schema.empty_table()
        given = assign_sessions(self.context.session.createDataFrame(empty), self.kind)
        return passes_on(self.context.definition, given, self.kind.by)

    def _counted_between(self, start: int, end: int | None) -> pa.Table:
        """Rows of all keys in ``[start, end)`` that count."""
        given = self.first
        until = None if end is None else moment(end)
        position = self.positions[given.name]
        rows = rows_between(given.source, position, self.kind.on, moment(start), until)
        apart = pa.concat_tables([late_lines.lines(self.late_table, EXPIRED), self._listed])
        return self._counted(rows, apart)

    def _chained(self, late: pa.Table, bounds: pa.Table) -> pa.Table:
        """Bounds moved back over rows that follow each other closely.

        A session need not be in the table: its transform may have left it out.
        """
        by, on, gap = list(self.kind.by), DUCKDB.name(self.kind.on), self.kind.us("gap")
        while True:
            start = int(pc.min(bounds["_t"]).as_py())
            end = int(pc.max(bounds["_t"]).as_py())
            near = matching(self._counted_between(start - gap + 1, end), late)  # noqa: F841
            names = ", ".join(f"b.{DUCKDB.name(name)}" for name in by)
            moved = (
                connection()
                .sql(
                    f"""select {names}, least(b._t, coalesce(min(epoch_us(n.{on})), b._t)) as _t
                from bounds b left join near n on {same("b", "n", by)}
                    and epoch_us(n.{on}) < b._t and epoch_us(n.{on}) > b._t - {gap}
                group by {names}, b._t"""  # noqa: S608
                )
                .to_arrow_table()
            )
            if pc.sum(moved["_t"]).as_py() == pc.sum(bounds["_t"]).as_py():
                return bounds
            bounds = moved

    def status(self) -> dict[str, Any]:
        at = self.watermark
        return {
            **super().status(),
            "watermark": None if at is None else moment(at).isoformat(),
            "open_rows": self.open_rows.num_rows,
            "late": self.late,
        }


def _pointless(pending: pa.Table) -> pa.Table:
    """Sessions are accounted for without a window: which one a row ends in may change."""
    nothing = pa.nulls(pending.num_rows, pending.schema.field("window_start").type)
    return pending.set_column(
        pending.schema.get_field_index("window_start"), "window_start", nothing
    )
