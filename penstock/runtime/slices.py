"""Tables of kind ``window``, by slices: no state store, nothing to migrate or to lose.

Purpose: write each window once, when it is final. How it works: the follower keeps the input rows
that may still belong to an open window. Each batch moves the watermark (newest event time less the
lateness); the windows that it passes are computed by the same transform, in its batch form, from
the rows kept. What is open is a function of the input's version and the watermark, and both are
committed with every result, so after a restart the open rows are read again from the input and the
table goes on where it was. What it does not do: reopen a window. A row whose windows have all
closed is late; it stays in its input, is counted, and is reconciled in batch.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.duration import micros
from penstock.model.windows import Window
from penstock.runtime import quarantine
from penstock.runtime.compute import (
    BIG_BATCH_ROWS,
    BROKEN_TRANSFORM,
    Computed,
    isolate,
    materialise,
)
from penstock.runtime.files import write_arrow
from penstock.runtime.follow import Follower, TableContext
from penstock.runtime.prepared import Prepared
from penstock.runtime.source import Batch, Source, rows_since
from penstock.runtime.windows import assign_windows, first_open_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["WATERMARK", "SliceFollower"]

WATERMARK = "watermark"
_FROM, _TO = "_penstock_from", "_penstock_to"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class SliceFollower(Follower):
    """One window table over one revision."""

    def __init__(self, context: TableContext, source: Source, source_name: str) -> None:
        super().__init__(context, source, source_name)
        assert isinstance(context.definition.kind, Window)  # noqa: S101
        self.window: Window = context.definition.kind
        self.watermark = self.writer.position(WATERMARK)
        self.late = 0
        self._prepared: Prepared | None = None
        self._excluded = self._quarantined_before()
        self.open_rows = self._open_rows_again()

    # --- state, from nothing but the tables -----------------------------------------------
    def _open_rows_again(self) -> pa.Table:
        """The rows of windows still open at our position and watermark."""
        if self.position < 0 or self.watermark is None:
            return self.source.schema.empty_table()
        start = _EPOCH + dt.timedelta(microseconds=first_open_start(self.window, self.watermark))
        return self._without_excluded(rows_since(self.source, self.position, self.window.on, start))

    def _quarantined_before(self) -> set[str]:
        if self.broken.log.txn(f"{self.context.revision}:{self.source_name}") is None:
            return set()
        known = self.broken.log.snapshot().to_pyarrow_table(columns=["row_id"])
        return set(known["row_id"].to_pylist())

    def _without_excluded(self, rows: pa.Table) -> pa.Table:
        if not self._excluded:
            return rows
        keep = [quarantine.row_id(row) not in self._excluded for row in rows.to_pylist()]
        return rows.filter(pa.array(keep, pa.bool_()))

    # --- one batch ------------------------------------------------------------------------
    def take(self, batch: Batch) -> None:
        fresh = self._without_excluded(batch.rows(self.source.schema))
        fresh = fresh.filter(pc.is_valid(fresh[self.window.on]))
        if fresh.num_rows == 0:
            return
        newest = _micros(pc.max(fresh[self.window.on]))
        reached = max(newest - micros(self.window.lateness_delta), self.watermark or _NEVER)
        opens = None if self.watermark is None else first_open_start(self.window, self.watermark)
        closes = first_open_start(self.window, reached)
        if opens is not None:
            kept = fresh.filter(pc.greater_equal(fresh[self.window.on], _stamp(opens)))
            self.late += fresh.num_rows - kept.num_rows
            fresh = kept
        rows = pa.concat_tables([self.open_rows, fresh])
        if opens is None or closes > opens:
            self._close(batch, rows, opens, closes, reached)
        else:
            self.open_rows, self.watermark = rows, reached

    def _close(
        self, batch: Batch, rows: pa.Table, opens: int | None, closes: int, reached: int
    ) -> None:
        """Write the windows that start in ``[opens, closes)`` and keep what later ones need."""
        last_end = closes - micros(self.window.every_delta) + micros(self.window.size_delta)
        needed = rows.filter(pc.less(rows[self.window.on], _stamp(last_end)))
        done, bad = self._compute(needed, opens, closes)
        if bad.num_rows:
            self.set_apart(write_arrow(bad, self.broken.path), batch.to)
            rows = self._without_excluded(rows)
        positions = {self.source_name: batch.to, WATERMARK: reached}
        info = {"rows_in": batch.count, "late": self.late}
        self.writer.append(done.adds, positions, info, done.rows)
        self.watermark = reached
        self.open_rows = rows.filter(pc.greater_equal(rows[self.window.on], _stamp(closes)))

    def _compute(self, rows: pa.Table, opens: int | None, closes: int) -> tuple[Computed, pa.Table]:
        def build(some: pa.Table) -> DataFrame:
            size = some.num_rows
            some = some.append_column(_FROM, pa.repeat(pa.scalar(opens or _NEVER), size))
            some = some.append_column(_TO, pa.repeat(pa.scalar(closes), size))
            if self._prepared is None:
                self._prepared = Prepared(self.context.session, some.schema, self._slice)
            return self._prepared.frame(some)

        big = rows.num_rows * self.window.panes > BIG_BATCH_ROWS
        schema, folder = self.writer.schema, self.writer.path
        none = quarantine.SCHEMA.empty_table()
        if rows.num_rows == 0:
            return Computed([]), none
        try:
            return materialise(build(rows), schema, folder, big=big), none
        except BROKEN_TRANSFORM:
            broken = isolate(build, rows, self.name)
            apart = rows.take([index for index, _ in broken])
            bad = quarantine.broken_rows(self.source_name, apart, [error for _, error in broken])
            self._excluded.update(bad["row_id"].to_pylist())
            return materialise(build(self._without_excluded(rows)), schema, folder, big=big), bad

    def _slice(self, rows: DataFrame) -> DataFrame:
        """The transform over the windows a batch closes.

        Which these are travels as columns: a literal would change the plan, and Spark would
        compile it anew for every batch.
        """
        start = F.unix_micros("window_start")
        within = (start >= F.col(_FROM)) & (start < F.col(_TO))
        closed = assign_windows(rows, self.window).where(within).drop(_FROM, _TO)
        out: DataFrame = self.context.definition(closed)
        return out

    def status(self) -> dict[str, Any]:
        at = (
            None if self.watermark is None else (_EPOCH + dt.timedelta(microseconds=self.watermark))
        )
        return {
            **super().status(),
            "watermark": at.isoformat() if at else None,
            "open_rows": self.open_rows.num_rows,
            "late": self.late,
        }


_NEVER = -(1 << 62)


def _micros(value: pa.Scalar) -> int:
    return int(value.cast(pa.int64()).as_py())


def _stamp(at: int) -> pa.Scalar:
    return pa.scalar(at, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
