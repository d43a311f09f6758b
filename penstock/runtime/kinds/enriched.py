"""Enriched tables: facts with the dimensions of their time, revised when a dimension comes late.

Dimension rows lie in a store by key. A fact is joined when it comes. A dimension row that comes,
or goes, touches the facts of its key within its time; these are read again from the facts
themselves, computed again, and written as the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.kinds import Enrich
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.listing import Listing
from penstock.runtime.delta.relate import distinct, matching, minus
from penstock.runtime.delta.source import Batch, is_kept, new_batches, rows_at, rows_in
from penstock.runtime.delta.store import Store
from penstock.runtime.delta.upsert import Spans
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.compute import sliced
from penstock.runtime.kinds.follow import CATCH_UP_ROWS, Follower, Input, TableContext
from penstock.runtime.kinds.mapping import Calculation
from penstock.runtime.kinds.windows import as_of
from penstock.runtime.times import moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["EnrichFollower"]


class EnrichFollower(Follower):
    """One enriched table: the first input is the facts, the others are dimensions."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input]) -> None:
        super().__init__(context, inputs)
        self.kind = cast(Enrich, context.definition.kind)
        self.facts = self.first
        self.dimensions = {a: i for a, i in self.inputs.items() if i is not self.facts}
        self._condemned = self.condemned_before(self.facts)
        self._listing = Listing(self.facts.source.path, self.kind.on)
        schemas = {a: i.source.schema for a, i in self.inputs.items()}
        self.calculation = Calculation(
            context.session, schemas, self._joined, self.writer.schema, self.name
        )
        self.upserts = Spans(
            self.writer.path,
            self.writer.log.version,
            self.writer.schema,
            context.definition.keys,
            self.kind.on,
        )
        dimensions = {a: i.source.schema for a, i in self.dimensions.items()}
        self.store = Store(context.scratch / "dimensions.duckdb", dimensions)
        self.store.bring_up(self._catch_up_store)

    def stores(self) -> list[Store]:
        return [self.store]

    def _catch_up_store(self) -> None:
        """Let the store hold the dimensions as the table has taken them in."""
        for argument, given in self.dimensions.items():
            at, reached = self.store.position(given.name), self.positions[given.name]
            if at > reached or (at >= 0 and not is_kept(given.source, at)):
                self.store.clear()
                self._catch_up_store()
                return
            if at == reached:
                continue
            self.store.begin()
            if at < 0:
                for rows in rows_at(given.source, reached):
                    self.store.add(argument, rows)
            else:
                for batch in new_batches(given.source, at, CATCH_UP_ROWS, until=reached):
                    self._apply(argument, batch.change(given.source.schema))
            self.store.commit({given.name: reached})

    def _apply(self, argument: str, change: Change) -> None:
        if change.gone is not None:
            self.store.remove(argument, change.gone)
        self.store.add(argument, change.added)

    def reading_order(self) -> list[Input]:
        """Dimensions first: a fact that finds its dimension need not be revised."""
        return [*self.dimensions.values(), self.facts]

    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        if given is self.facts:
            self._take_facts(given, change, batch)
        else:
            self._take_dimension(given, change, batch)

    # --- facts ----------------------------------------------------------------------------
    def _take_facts(self, given: Input, change: Change, batch: Batch) -> None:
        gone = change.gone if change.gone is not None else change.added.slice(0, 0)
        added, known = sound(change.added, self._condemned), sound(gone, self._condemned)
        apart = (change.added.num_rows - added.num_rows) - (gone.num_rows - known.num_rows)
        self.tally.add(given.name, Outcome.QUARANTINED, apart)
        again = self._staying(known, batch.to)
        fresh = matching(added, self._names(known), within=False)
        new, broken = self._computed(pa.concat_tables([fresh, again]))
        old = self._rows_of(known)
        after = fresh.num_rows + again.num_rows - broken
        before = after + broken + known.num_rows - added.num_rows
        counted = min(self._facts_in(new), after) - min(self._facts_in(old), before)
        self.tally.add(given.name, Outcome.COUNTED, counted)
        self.tally.add(given.name, Outcome.FILTERED, after - before - counted)
        net = Change(minus(new, old), minus(old, new))
        actions = self.upserts.rewrite(net)
        self.commit(actions, net, {given.name: batch.to}, {"rows_in": batch.count})

    def _names(self, facts: pa.Table) -> pa.Table:
        """What tells rows of these facts from others; several facts may have the same."""
        # The time may be one of the keys: a column is named once.
        return distinct(facts, list(dict.fromkeys([*self.context.definition.keys, self.kind.on])))

    def _staying(self, gone: pa.Table, version: int) -> pa.Table:
        """Facts that have the names of facts that went, and are there: their rows stay."""
        if gone.num_rows == 0:
            return gone
        facts = self._facts_between(version, *self._span(gone))
        return sound(matching(facts, self._names(gone)), self._condemned)

    def _facts_between(self, version: int, low: int | None, high: int | None) -> pa.Table:
        """The facts of a version with times in ``[low, high)``."""
        start, end = (None if at is None else moment(at) for at in (low, high))
        files = self._listing.between(version, low, high)
        return rows_in(self.facts.source, files, self.kind.on, start, end)

    def _rows_of(self, facts: pa.Table) -> pa.Table:
        """What the table holds of these facts, by their keys and times."""
        if facts.num_rows == 0:
            return self.writer.schema.empty_table()
        return matching(self.upserts.rows_between(*self._span(facts)), self._names(facts))

    def _span(self, facts: pa.Table) -> tuple[int | None, int | None]:
        """From the first of some facts to after the last; one without a time lies anywhere."""
        times = facts[self.kind.on].cast(pa.int64())
        if times.null_count:
            return None, None
        return pc.min(times).as_py(), pc.max(times).as_py() + 1

    def _facts_in(self, rows: pa.Table) -> int:
        """How many facts some rows of the table are of: one may have several, or none."""
        return int(distinct(rows, self.context.definition.keys).num_rows)

    # --- dimensions -----------------------------------------------------------------------
    def _take_dimension(self, given: Input, change: Change, batch: Batch) -> None:
        self.store.begin()
        self._apply(given.argument, change)
        gone = change.gone if change.gone is not None else change.added.slice(0, 0)
        self.tally.add(given.name, Outcome.COUNTED, change.added.num_rows - gone.num_rows)
        touched = self._touched(pa.concat_tables([change.added, gone]))
        new, broken = self._computed(touched)
        self.tally.add(self.facts.name, Outcome.COUNTED, -broken)
        old = self._rows_of(touched)
        # A dimension may let a fact in, or out.
        appeared = self._facts_in(new) - self._facts_in(old) + broken
        self.tally.add(self.facts.name, Outcome.COUNTED, appeared)
        self.tally.add(self.facts.name, Outcome.FILTERED, -appeared)
        net = Change(minus(new, old), minus(old, new))
        actions = self.upserts.rewrite(net)
        self.commit(actions, net, {given.name: batch.to}, {"rows_in": batch.count})
        self.store.commit({given.name: batch.to})

    def _touched(self, versions: pa.Table) -> pa.Table:
        """The facts of these keys between the first and the last moment the versions are about."""
        position = self.positions[self.facts.name]
        if versions.num_rows == 0 or position < 0:
            return self.facts.source.schema.empty_table()
        start = pc.min(versions["valid_from"].cast(pa.int64())).as_py()
        ends = versions["valid_to"].cast(pa.int64())
        end = None if ends.null_count else pc.max(ends).as_py()
        facts = self._facts_between(position, start, end)
        facts = matching(facts, distinct(versions, self.kind.by))
        return sound(facts, self._condemned)

    def touched_since(self, inputs: Mapping[str, int], version: int) -> pa.Table | None:
        parts = [self.facts.source.schema.empty_table()]
        for change in self.changes_since(self.facts, inputs[self.facts.name]):
            parts += change.both
        for given in self.dimensions.values():
            for change in self.changes_since(given, inputs[given.name]):
                parts.append(self._touched(pa.concat_tables(change.both)))
        return distinct(pa.concat_tables(parts), self.context.definition.keys)

    # --- computing ------------------------------------------------------------------------
    def _computed(self, facts: pa.Table) -> tuple[pa.Table, int]:
        """The facts with their dimensions, and how many broke the transform."""
        parts, broke = [self.writer.schema.empty_table()], 0
        for some in sliced(facts):
            if some.num_rows == 0:
                continue
            scopes = distinct(some, self.kind.by)
            rows = {a: self.store.fetch(a, scopes) for a in self.dimensions}
            rows[self.facts.argument] = some
            out, broken = self.calculation.around(self.facts.argument, **rows)
            apart = some.take(pa.array([index for index, _ in broken], pa.int64()))
            errors = [error for _, error in broken]
            bad = quarantine.broken_rows(self.facts.name, apart, errors)
            self.set_apart(self.facts, bad)
            self._condemned.update(bad["row_id"].to_pylist())
            parts.append(out)
            broke += bad.num_rows
        return pa.concat_tables(parts), broke

    def _joined(self, **frames: DataFrame) -> DataFrame:
        facts = frames.pop(self.facts.argument)
        out: DataFrame = self.context.definition(as_of(facts, frames, self.kind))
        return out
