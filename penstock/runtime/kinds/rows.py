"""Tables of kind ``rows``: each input row becomes zero or more output rows by itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.location import copies
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import BIG_BATCH_BYTES, BIG_BATCH_ROWS, spark_files, write_arrow
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.relate import minus
from penstock.runtime.delta.source import Batch
from penstock.runtime.delta.store import Store
from penstock.runtime.delta.upsert import Buckets, Upserts
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.compute import (
    BROKEN_TRANSFORM,
    materialise,
    sliced,
)
from penstock.runtime.kinds.contracts import ContractMapper
from penstock.runtime.kinds.dedupe import as_they_came
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.runtime.kinds.mapping import Mapper
from penstock.runtime.kinds.prepared import to_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RevisedRowsFollower", "RowsFollower", "frame_of"]

log = logging.getLogger("penstock.rows")


class RowsFollower(Follower):
    """A rows table over an input that only grows."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input], mapper: Mapper) -> None:
        super().__init__(context, inputs)
        self.mapper = mapper

    def stores(self) -> list[Store]:
        return self.mapper.stores()

    def take(self, given: Input, batch: Batch) -> None:
        """Chosen before anything is collected: Spark's writers for much, memory for little."""
        if not batch.appends:
            self._take_change(given, batch)
            return
        small = batch.count <= BIG_BATCH_ROWS and batch.size <= BIG_BATCH_BYTES
        if small or self.context.definition.dedupe is not None:
            self._take_small(given, batch)
            return
        try:
            self._take_big(given, batch)
        except BROKEN_TRANSFORM:  # rare and slow on purpose: look at bounded slices
            self._take_small(given, batch)

    def _take_small(self, given: Input, batch: Batch) -> None:
        parts = []
        self.mapper.begin()
        added = batch.change(given.source.schema).added
        if self.context.definition.dedupe is not None:
            added = as_they_came(added)
        for rows in sliced(added):
            mapped = self.mapper.map(rows)
            self.set_apart(given, mapped.bad)
            self.tally.add(given.name, Outcome.DUPLICATE, mapped.duplicates)
            self._count(given, rows.num_rows - mapped.bad.num_rows - mapped.duplicates, mapped.rows)
            self.watch(mapped.rows.num_rows + mapped.duplicates, mapped.bad.num_rows)
            parts.append(mapped.rows)
        out = pa.concat_tables(parts)
        adds = write_arrow(out, self.writer.path)
        self.commit(adds, Change(out), {given.name: batch.to}, {"rows_in": batch.count})
        self.mapper.done(batch.to)

    def _take_change(self, given: Input, batch: Batch) -> None:
        """Rows went too: a correction of what only grows otherwise. What they came to goes."""
        change = batch.change(given.source.schema)
        if change.gone is None:
            change = Change(change.added, change.added.slice(0, 0))
        assert change.gone is not None  # noqa: S101
        revised = self.mapper.revise(change, self.let_out(given, change.gone))
        self.set_apart(given, revised.mapped.bad)
        self.count_revised(given, change, revised)
        if revised.foreign:
            log.error(
                "%s: %d rows that are to go break its own code; if mended code replayed them, "
                "`penstock backfill %s --all --why '...'` takes them back",
                self.name, revised.foreign, self.name,
            )  # fmt: skip
        rows, gone = revised.mapped.rows, revised.gone
        net = Change(minus(rows, gone), minus(gone, rows))
        layout = self.layout()
        net = self._held_only(layout, net)
        self.commit(layout.rewrite(net), net, {given.name: batch.to}, {"rows_in": batch.count})
        self.mapper.revised(batch.to)

    def _held_only(self, layout: Upserts, net: Change) -> Change:
        """Without rows to take back that are not there: a damaged table must not stop for them."""
        assert net.gone is not None  # noqa: S101
        missing = minus(net.gone, layout.read(layout.holders(net.gone)))
        if missing.num_rows:
            log.error(
                "%s does not hold %d rows that are to go: "
                "`penstock backfill %s --all --why '...'` mends it",
                self.name, missing.num_rows, self.name,
            )  # fmt: skip
        return Change(net.added, minus(net.gone, missing))

    def _count(self, given: Input, rows: int, out: pa.Table) -> None:
        """Where a row becomes several, counted and filtered are right in their sum alone."""
        counted = min(rows, out.num_rows)
        self.tally.add(given.name, Outcome.COUNTED, counted)
        self.tally.add(given.name, Outcome.FILTERED, rows - counted)

    def _take_big(self, given: Input, batch: Batch) -> None:
        frame = frame_of(self.context.session, given, batch)
        apart: list[Action] = []
        if isinstance(self.mapper, ContractMapper):
            self.mapper.learn_from(frame)
            out, bad = self.mapper.sides(frame)
            apart = spark_files(bad, self.broken.path)
        else:
            out = self.context.definition(frame)
        done = materialise(out, self.writer.schema, self.writer.path, big=True)
        # Only now: whatever failed until here is tried again in another way.
        good = batch.count - self.set_apart_files(given, apart)
        self.watch(good, batch.count - good)
        counted = min(good, done.count)
        self.tally.add(given.name, Outcome.COUNTED, counted)
        self.tally.add(given.name, Outcome.FILTERED, good - counted)
        self.commit(done.adds, None, {given.name: batch.to}, {"rows_in": batch.count})


class RevisedRowsFollower(Follower):
    """A rows table over an input whose rows may change: what came of a row goes with it."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input], mapper: Mapper) -> None:
        super().__init__(context, inputs)
        self.mapper = mapper
        keys = context.definition.keys
        self.upserts = Buckets(
            self.writer.path, self.writer.log.version, self.writer.schema, keys, keys
        )
        self._condemned = self.condemned_before(self.first)

    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        added, bad = self._mapped(change.added)
        self.set_apart(given, bad)
        self._condemned.update(bad["row_id"].to_pylist())
        came = change.added.num_rows - bad.num_rows
        counted = min(came, added.num_rows)
        gone, counted_gone, went = added.schema.empty_table(), 0, 0
        if change.gone is not None and change.gone.num_rows:
            known = sound(change.gone, self._condemned)
            lost = change.gone.num_rows - known.num_rows
            self.tally.add(given.name, Outcome.QUARANTINED, -lost)
            gone, _ = self._mapped(known)
            went = known.num_rows
            counted_gone = min(went, gone.num_rows)
        self.tally.add(given.name, Outcome.COUNTED, counted - counted_gone)
        self.tally.add(given.name, Outcome.FILTERED, (came - counted) - (went - counted_gone))
        net = Change(minus(added, gone), minus(gone, added))
        actions = self.upserts.rewrite(net)
        self.commit(actions, net, {given.name: batch.to}, {"rows_in": batch.count})

    def _mapped(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        parts = [self.mapper.map(some) for some in sliced(rows)]
        return pa.concat_tables([p.rows for p in parts]), pa.concat_tables([p.bad for p in parts])


def frame_of(session: object, given: Input, batch: Batch) -> DataFrame:
    """A growing batch as Spark reads it: files where there are files."""
    held = [to_frame(session, change.added) for change in batch.held]  # type: ignore[arg-type]
    names = given.source.schema.names
    frames = [f.select(*names) for f in held]
    if batch.files:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(given.source.schema)  # an old file may lack a column
        read = session.read.schema(schema).parquet(*copies(batch.files))  # type: ignore[attr-defined]
        frames.append(read.select(*names))
    first, *rest = frames
    for frame in rest:
        first = first.unionByName(frame)
    return first
