"""Group tables: whatever a batch touches is computed again, exactly, from all its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa

from penstock.errors import TransformError
from penstock.model.kinds import Group
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.relate import distinct, matching, minus
from penstock.runtime.delta.source import Batch, is_kept, new_batches, rows_at
from penstock.runtime.delta.store import Store
from penstock.runtime.delta.upsert import Buckets
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.follow import CATCH_UP_ROWS, Follower, Input, TableContext
from penstock.runtime.kinds.mapping import Calculation

__all__ = ["GroupFollower"]


class GroupFollower(Follower):
    """One group table; a group's rows of every input lie in the store."""

    def __init__(
        self, context: TableContext, inputs: Mapping[str, Input], calculation: Calculation
    ) -> None:
        super().__init__(context, inputs)
        self.kind = cast(Group, context.definition.kind)
        self.calculation = calculation
        self._condemned = {name: self.condemned_before(i) for name, i in self.inputs.items()}
        self.upserts = Buckets(
            self.writer.path,
            self.writer.log.version,
            self.writer.schema,
            context.definition.keys,
            self.kind.by,
        )
        schemas = {argument: i.source.schema for argument, i in self.inputs.items()}
        self.store = Store(context.scratch / "rows.duckdb", schemas)
        self.store.bring_up(self._catch_up_store)

    def stores(self) -> list[Store]:
        return [self.store]

    def _catch_up_store(self) -> None:
        """Let the store hold what the table has taken in, and nothing else."""
        known = {i.name: (i, self.store.position(i.name)) for i in self.inputs.values()}
        ahead = any(at > self.positions[n] for n, (_, at) in known.items())
        if ahead or any(at >= 0 and not is_kept(i.source, at) for i, at in known.values()):
            self.store.clear()
        for argument, given in self.inputs.items():
            at, reached = self.store.position(given.name), self.positions[given.name]
            if at >= reached:
                continue
            self.store.begin()
            if at < 0:
                for rows in rows_at(given.source, reached):
                    self._apply(argument, Change(rows))
            else:
                for batch in new_batches(given.source, at, CATCH_UP_ROWS, until=reached):
                    self._apply(argument, batch.change(given.source.schema))
            self.store.commit({given.name: reached})

    def _apply(self, argument: str, change: Change) -> tuple[pa.Table, pa.Table]:
        """Put a change into the store; returns what counted of the rows that came and went."""
        condemned = self._condemned[argument]
        gone = change.gone if change.gone is not None else change.added.slice(0, 0)
        gone, added = sound(gone, condemned), sound(change.added, condemned)
        self.store.remove(argument, gone)
        self.store.add(argument, added)
        return added, gone

    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        self.store.begin()
        added, gone = self._apply(given.argument, change)
        known = change.added.num_rows - added.num_rows  # an equal row is in quarantine already
        went = 0 if change.gone is None else change.gone.num_rows - gone.num_rows
        self.tally.add(given.name, Outcome.QUARANTINED, known - went)
        touched = distinct(pa.concat_tables([added, gone]), self.kind.by)
        new, bad = self._computed(given, touched)
        self._require_kept(new, touched)
        self.set_apart(given, bad)
        self.tally.add(given.name, Outcome.COUNTED, added.num_rows - gone.num_rows - bad.num_rows)
        old = self.upserts.rows_of(touched)
        net = Change(minus(new, old), minus(old, new))
        actions = self.upserts.rewrite(net)
        self.commit(actions, net, {given.name: batch.to}, {"rows_in": batch.count})
        self.store.commit({given.name: batch.to})

    def _require_kept(self, new: pa.Table, touched: pa.Table) -> None:
        """A result under another group's name would never be found again, nor taken away."""
        strange = matching(new, touched, within=False)
        if strange.num_rows:
            by = list(self.kind.by)
            raise TransformError(
                f"{self.name}: its transform makes {strange.select(by).slice(0, 1).to_pylist()[0]} "
                f"of groups that are named otherwise. It has to keep the columns of by ({by}).",
                remedy="Compute the group in a table below this one, or give it another name.",
            )

    def touched_since(self, inputs: Mapping[str, int], version: int) -> pa.Table | None:
        by = list(self.kind.by)
        parts = [self.writer.schema.empty_table().select(by)]
        for given in self.inputs.values():
            for change in self.changes_since(given, inputs[given.name]):
                parts += [rows.select(by) for rows in change.both]
        return distinct(pa.concat_tables(parts), by)

    def _computed(self, given: Input, touched: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The touched groups, and the rows that break them."""
        if touched.num_rows == 0:
            return self.writer.schema.empty_table(), quarantine.SCHEMA.empty_table()
        rows = {argument: self.store.fetch(argument, touched) for argument in self.inputs}
        out, broken = self.calculation.around(given.argument, **rows)
        apart = rows[given.argument].take(pa.array([index for index, _ in broken], pa.int64()))
        bad = quarantine.broken_rows(given.name, apart, [error for _, error in broken])
        if bad.num_rows:
            self.store.remove(given.argument, apart)
            self._condemned[given.argument].update(bad["row_id"].to_pylist())
        return out, bad
