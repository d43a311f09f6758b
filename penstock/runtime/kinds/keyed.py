"""Keyed tables: latest row, running totals or history per key.

The transform maps rows one by one; what it returns lies in a store by key, and the keys a batch
touches are folded anew. Rows may come in any order: the order is the declared one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import TransformError
from penstock.model.kinds import Latest, Totals
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.relate import connection, distinct, minus
from penstock.runtime.delta.source import Batch, is_kept, new_batches, rows_at
from penstock.runtime.delta.store import Store
from penstock.runtime.delta.upsert import Buckets
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.compute import sliced
from penstock.runtime.kinds.dedupe import as_they_came
from penstock.runtime.kinds.folds import DUCKDB, fold_query
from penstock.runtime.kinds.follow import CATCH_UP_ROWS, Follower, Input, TableContext
from penstock.runtime.kinds.mapping import Mapped, Mapper

__all__ = ["KeyedFollower"]

_ROWS, _CUTS = "rows", "cuts"
_COUNT = "_rows"
_MERGED = "merged"  # how often rows were merged in beside the commits of its inputs


class KeyedFollower(Follower):
    """One keyed table over one or more inputs."""

    def __init__(
        self,
        context: TableContext,
        inputs: Mapping[str, Input],
        mappers: Mapping[str, Mapper],
        mapped: pa.Schema,
    ) -> None:
        super().__init__(context, inputs)
        self.kind = cast(Totals | Latest, context.definition.kind)
        self.mappers = dict(mappers)
        self.mapped = mapped
        self._condemned = {name: self.condemned_before(i) for name, i in self.inputs.items()}
        self.upserts = Buckets(
            self.writer.path,
            self.writer.log.version,
            self.writer.schema,
            context.definition.keys,
            self.kind.by,
        )
        held = _summed(mapped, self.kind.by) if isinstance(self.kind, Totals) else mapped
        self.store = Store(context.scratch / "rows.duckdb", {_ROWS: held, _CUTS: mapped})
        self.store.bring_up(self._catch_up_store)

    # --- the store ------------------------------------------------------------------------
    def stores(self) -> list[Store]:
        return [self.store, *(s for m in self.mappers.values() for s in m.stores())]

    def _catch_up_store(self) -> None:
        """Let the store hold what the table has taken in, and nothing else."""
        known = {n: self.store.position(n) for n in self.positions}
        ahead = any(known[n] > at for n, at in self.positions.items())
        merged = self.writer.position(_MERGED) or 0
        missed = max(self.store.position(_MERGED), 0) != merged  # a merge the copy has not seen
        sources = [(i.source, known[i.name]) for i in self.inputs.values()]
        cut_off = any(at >= 0 and not is_kept(source, at) for source, at in sources)
        if ahead or missed or cut_off or (self._deduplicates and known != self.positions):
            self.store.clear()
            self.store.begin()
            self.store.commit({_MERGED: merged})
        for argument, given in self.inputs.items():
            at, reached = self.store.position(given.name), self.positions[given.name]
            if at >= reached:
                continue
            self.store.begin()
            self.mappers[argument].begin_again()
            left_out = self._left_out(argument)
            if at < 0:
                for rows in self._parts_at(given, reached):
                    self._apply(self._remapped(argument, Change(rows), left_out))
            else:
                for batch in new_batches(given.source, at, CATCH_UP_ROWS, until=reached):
                    change = batch.change(given.source.schema)
                    self._apply(self._remapped(argument, change, left_out))
            self.store.commit({given.name: reached})

    def _corrected_since(self, known: Mapping[str, int]) -> bool:
        """Whether what the copy lacks cannot be added to it: of a topic, once a record was marked.

        A void record is in quarantine under the id of the one it was, and may have made others
        count; so then the copy is filled from the records as they are now. A table that
        deduplicates always does that: which of two rows is the duplicate, their order says.
        """
        behind = {n: at for n, at in known.items() if at < self.positions[n]}
        if self._deduplicates:
            return bool(behind)
        topics = [i for i in self.inputs.values() if quarantine.is_bronze(i.source.schema)]
        return any(
            not batch.appends
            for given in topics
            if given.name in behind and behind[given.name] >= 0
            for batch in new_batches(
                given.source, behind[given.name], CATCH_UP_ROWS, self.positions[given.name]
            )
        )

    def _parts_at(self, given: Input, version: int) -> Iterable[pa.Table]:
        """All rows of a version; in the order they came in, where that decides."""
        parts = rows_at(given.source, version)
        if not self._deduplicates:
            return parts
        return [as_they_came(pa.concat_tables([given.source.schema.empty_table(), *parts]))]

    def _left_out(self, argument: str) -> set[str]:
        """Rows not to be mapped again.

        Of a stream only those that broke its contract: one that broke the transform was the first
        of its key all the same, and breaks it again.
        """
        given = self.inputs[argument]
        if not quarantine.is_bronze(given.source.schema):
            return self._condemned[argument]
        return self.condemned_before(given, transform=False)

    @property
    def _deduplicates(self) -> bool:
        return self.context.definition.dedupe is not None

    def _remapped(self, argument: str, change: Change, condemned: set[str]) -> Change:
        """What the transform made of rows that were taken in before; nothing is told again."""
        mapper = self.mappers[argument]
        added = self._map(mapper, sound(change.added, condemned), again=True).rows
        if change.gone is None or not change.gone.num_rows:
            return Change(added)
        return Change(added, self._map(mapper, sound(change.gone, condemned), again=True).rows)

    def _apply(self, change: Change) -> pa.Table:
        """Put a change of mapped rows into the store; returns the keys it touches."""
        by = list(self.kind.by)
        gone = change.gone if change.gone is not None else self.mapped.empty_table()
        added, cuts = self._cuts_apart(change.added)
        gone, uncut = self._cuts_apart(gone)
        touched = distinct(pa.concat_tables([added, gone]), by)
        if isinstance(self.kind, Totals):
            self._apply_totals(touched, added, gone)
            return touched
        self.store.remove(_ROWS, gone)
        self.store.add(_ROWS, added)
        if cuts.num_rows or uncut.num_rows:
            self.store.remove(_CUTS, uncut)
            self.store.add(_CUTS, cuts)
            everyone = self.store.scopes(_ROWS, by)
            touched = distinct(pa.concat_tables([touched, everyone]), by)
        return touched

    def _cuts_apart(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        flag = self.kind.truncated if isinstance(self.kind, Latest) else None
        if flag is None:
            return rows, rows.slice(0, 0)
        cut = pc.fill_null(rows[flag], False)
        return rows.filter(pc.invert(cut)), rows.filter(cut)

    def _apply_totals(self, touched: pa.Table, added: pa.Table, gone: pa.Table) -> None:
        """A key's rows are one row of sums, and how many rows they are of."""
        held = self.store.fetch(_ROWS, touched)  # noqa: F841 - found by its name
        names = [n for n in self.mapped.names if n not in self.kind.by]
        by = DUCKDB.names(self.kind.by)
        plain = ", ".join(f"coalesce({DUCKDB.name(n)}, 0) as {DUCKDB.name(n)}" for n in names)
        minused = ", ".join(f"-coalesce({DUCKDB.name(n)}, 0) as {DUCKDB.name(n)}" for n in names)
        sums = ", ".join(f"sum({DUCKDB.name(n)}) as {DUCKDB.name(n)}" for n in [*names, _COUNT])
        summed = connection().sql(
            f"""select {by}, {sums} from (
                select {by}, {DUCKDB.names(names)}, {_COUNT} from held
                union all select {by}, {plain}, 1 from added
                union all select {by}, {minused}, -1 from gone
            ) group by {by} having sum({_COUNT}) > 0"""  # noqa: S608
        )
        try:
            rows = conform(summed.to_arrow_table(), _summed(self.mapped, self.kind.by))
        except pa.ArrowInvalid as error:
            raise TransformError(
                f"{self.name} is parked: a total does not fit its type: {error}",
                remedy="Cast what is added to a wider decimal; that is a new revision.",
            ) from error
        self.store.replace(_ROWS, touched, rows)

    # --- one batch ------------------------------------------------------------------------
    def take(self, given: Input, batch: Batch) -> None:
        change = batch.change(given.source.schema)
        if change.gone is not None and change.gone.num_rows:
            self._take_change(given, change, batch)
            return
        mapper = self.mappers[given.argument]
        mapper.begin()
        added = as_they_came(change.added) if self._deduplicates else change.added
        mapped = self._map(mapper, added)
        self.set_apart(given, mapped.bad)
        self._condemned[given.argument].update(mapped.bad["row_id"].to_pylist())
        self.tally.add(given.name, Outcome.DUPLICATE, mapped.duplicates)
        self.watch(mapped.rows.num_rows + mapped.duplicates, mapped.bad.num_rows)
        came = change.added.num_rows - mapped.bad.num_rows - mapped.duplicates
        counted = min(came, mapped.rows.num_rows)
        self.tally.add(given.name, Outcome.COUNTED, counted)
        self.tally.add(given.name, Outcome.FILTERED, came - counted)
        self._fold_in(given, Change(mapped.rows), batch)
        mapper.done(batch.to)

    def _take_change(self, given: Input, change: Change, batch: Batch) -> None:
        """The same where rows went."""
        assert change.gone is not None  # noqa: S101
        if self._pruned:  # what was let go may be the newest again
            self.store.clear()
            self._catch_up_store()
        mapper = self.mappers[given.argument]
        revised = mapper.revise(change, self.let_out(given, change.gone))
        self.set_apart(given, revised.mapped.bad)
        self._condemned[given.argument].update(revised.mapped.bad["row_id"].to_pylist())
        self.count_revised(given, change, revised)
        self._fold_in(given, Change(revised.mapped.rows, revised.gone), batch)
        mapper.revised(batch.to)

    def _fold_in(self, given: Input, mapped: Change, batch: Batch) -> None:
        self.store.begin()
        touched = self._apply(mapped)
        actions, net = self._folded(touched)
        self.commit(actions, net, {given.name: batch.to}, {"rows_in": batch.count})
        self._prune(touched)
        self.store.commit({given.name: batch.to})

    def touched_since(self, inputs: Mapping[str, int], version: int) -> pa.Table | None:
        """Too many rather than too few: a duplicate touches nothing, and is counted in here.

        Those it wrote are among them: a void record may have let another key's row count.
        """
        by, parts = list(self.kind.by), [self.mapped.empty_table()]
        wrote = new_batches(self.writer, version, CATCH_UP_ROWS)
        written = [r.select(by) for b in wrote for r in b.change(self.writer.schema).both]
        for argument, given in self.inputs.items():
            mapper = self.mappers[argument]
            mapper.begin_again()
            left_out = self._left_out(argument)
            for change in self.changes_since(given, inputs[given.name]):
                parts += self._remapped(argument, change, left_out).both
        rows, cuts = self._cuts_apart(pa.concat_tables(parts))
        everyone = [self.store.scopes(_ROWS, by)] if cuts.num_rows else []
        return distinct(pa.concat_tables([rows.select(by), *everyone, *written]), by)

    def merge(self, mapped: pa.Table, info: Mapping[str, Any]) -> None:
        """Take in mapped rows that come from elsewhere than the next commit of an input."""
        self.store.begin()
        touched = self._apply(Change(mapped))
        actions, net = self._folded(touched)
        merged = {_MERGED: (self.writer.position(_MERGED) or 0) + 1}
        self.commit(actions, net, merged, info)
        self.store.commit(merged)

    def forgive(self, ids: set[str]) -> None:
        for condemned in self._condemned.values():
            condemned.difference_update(ids)

    def _map(self, mapper: Mapper, rows: pa.Table, *, again: bool = False) -> Mapped:
        parts = [mapper.map(some, again=again) for some in sliced(rows)]
        return Mapped(
            pa.concat_tables([p.rows for p in parts]),
            pa.concat_tables([p.bad for p in parts]),
            sum(p.duplicates for p in parts),
        )

    def _folded(self, touched: pa.Table) -> tuple[list[Action], Change]:
        held = self.store.fetch(_ROWS, touched)
        cuts = self.store.fetch(_CUTS)  # noqa: F841 - found by its name
        if isinstance(self.kind, Totals):
            new = conform(held, self.writer.schema)
        else:
            query = fold_query(self.kind, self.mapped.names, "held", "cuts", DUCKDB)
            new = conform(connection().sql(query).to_arrow_table(), self.writer.schema)
        old = self.upserts.rows_of(touched)
        net = Change(minus(new, old), minus(old, new))
        return self.upserts.rewrite(net), net

    @property
    def _pruned(self) -> bool:
        """Whether only the newest row of a key is kept: while none is expected to be taken back."""
        return type(self.kind) is Latest and not any(i.changes for i in self.inputs.values())

    def _prune(self, touched: pa.Table) -> None:
        """Of a key's rows only the newest can matter again, as long as none is taken back."""
        if not self._pruned:
            return
        assert isinstance(self.kind, Latest)  # noqa: S101
        by, order = DUCKDB.names(self.kind.by), self.kind.order
        held = self.store.fetch(_ROWS, touched)
        rest = [c for c in self.mapped.names if c not in order and c not in self.kind.by]
        newest = DUCKDB.names([*order, *rest], " desc nulls last")
        best = connection().sql(
            f"""select {DUCKDB.names(self.mapped.names)} from (
                select *, row_number() over (partition by {by} order by {newest}) as _n from held
            ) where _n = 1"""  # noqa: S608
        )
        if held.num_rows > touched.num_rows:
            self.store.replace(_ROWS, touched, conform(best.to_arrow_table(), self.mapped))


def _summed(mapped: pa.Schema, by: tuple[str, ...]) -> pa.Schema:
    """Sums as they are kept: as wide as they can get."""
    fields = []
    for field in mapped:
        kind_of = field.type
        if field.name in by:
            fields.append(field)
        elif pa.types.is_decimal(kind_of):
            fields.append(pa.field(field.name, pa.decimal128(38, kind_of.scale)))
        else:
            fields.append(pa.field(field.name, pa.int64()))
    return pa.schema([*fields, pa.field(_COUNT, pa.int64())])
