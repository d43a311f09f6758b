"""Backfill: the code is right, the data was wrong. Same revision, computed again, net changes.

An interval is computed by a job of its own and handed to the table's writer, which commits what
differs while the stream goes on (of tables without windows: ``correction``). A whole table, of any
kind, is built anew beside the live one as another *generation* of the same revision, with what
reads it, and swapped in like any other release.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from penstock.errors import PenstockError, TransformError, UsageError, in_a_line
from penstock.location import delta_table
from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.model.windows import Session, Timed, Window
from penstock.reprocess.correction import Correction, Held
from penstock.reprocess.history import HistoryBuilder, Pinned, how_built
from penstock.reprocess.release import Ask
from penstock.reprocess.scratch import scratch
from penstock.reprocess.stage import Stager
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.declared.register import fingerprint_of
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.fates import late, quarantine
from penstock.runtime.ingest.bronze import bronze_schema
from penstock.runtime.kinds.build import arrow_fields
from penstock.runtime.kinds.compute import BROKEN_TRANSFORM, is_data_error
from penstock.runtime.kinds.geometry import geometry_of
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import Build, Candidate, How
from penstock.runtime.times import EPOCH, moment
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model.definition import Table

__all__ = ["Backfill", "checked_interval", "checked_times"]


def checked_times(start: dt.datetime, end: dt.datetime, *, now: dt.datetime) -> tuple[int, int]:
    """An interval as microseconds, if it is one and has passed."""
    if start >= end:
        raise UsageError(
            f"the interval ends at {end.isoformat()}, not after it begins ({start.isoformat()}).",
            remedy="Give --from before --to.",
        )
    if start > now or end > now:
        raise UsageError(f"{max(start, end).isoformat()} has not come yet.")
    first, last = ((at - EPOCH) // dt.timedelta(microseconds=1) for at in (start, end))
    return first, last


def checked_interval(
    table: Table, start: dt.datetime, end: dt.datetime, *, now: dt.datetime, closed: int | None
) -> tuple[int, int]:
    """An interval as microseconds, if it can be backfilled; every reason it cannot is said.

    Args:
        closed: the first result that is still open, in microseconds.
    """
    kind = table.kind
    first, last = checked_times(start, end, now=now)
    if isinstance(kind, Window):
        every, offset = kind.us("every"), kind.us("offset")
        for at in (first, last):
            off = (at - offset) % every
            if off:
                near = f"{moment(at - off).isoformat()} or {moment(at - off + every).isoformat()}"
                raise UsageError(
                    f"{moment(at).isoformat()} is not where a window of {table.name} begins.",
                    remedy=f"The nearest are {near}.",
                )
    if closed is None or last > closed:
        until = "nothing is closed yet" if closed is None else moment(closed).isoformat()
        raise UsageError(
            f"{table.name}: the interval reaches into results that are still open "
            f"(closed up to {until}).",
            remedy="End it earlier, or wait until they are closed.",
        )
    return first, last


class Backfill:
    """Backfills of one stack.

    Args:
        spark: opens the session it computes in, once there is something to compute: what cannot be
            done is told at once.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        settings: Settings,
        registry: Registry,
        ask: Ask,
    ) -> None:
        self._spark = spark
        self.settings = settings
        self.registry = registry
        self._ask = ask

    @cached_property
    def session(self) -> SparkSession:
        return self._spark()

    def _live(self, table: str) -> tuple[Revision, Table]:
        live = [r for r in self.registry.revisions(states=(State.LIVE,)) if r.table == table]
        if not live:
            raise UsageError(f"there is no live table {table}.", remedy="See `penstock tables`.")
        return live[0], self._catalog(live[0]).tables[TableName.parse(table)]

    def _catalog(self, revision: Revision) -> Catalog:
        return Bundle(self.settings.bundles / revision.bundle, self.settings.jobs).catalog()

    # --- an interval --------------------------------------------------------------------------
    def interval(
        self,
        table: str,
        start: dt.datetime,
        end: dt.datetime,
        *,
        who: str,
        why: str,
        on: str | None = None,
    ) -> dict[str, Any]:
        """Compute an interval again and commit what differs.

        Args:
            on: for tables without windows, the time column the interval is about, where the one
                that is meant without it (``timing``) is not.
        """
        revision, definition = self._live(table)
        now = dt.datetime.now(dt.UTC)
        if not isinstance(definition.kind, Timed) or isinstance(definition.kind, Session):
            first, last = checked_times(start, end, now=now)
            return self._corrected(revision, definition, first, last, on, who=who, why=why)
        if on is not None:
            raise UsageError(f"{table} has windows: an interval is about them; leave --on out.")
        first, last = checked_interval(
            definition,
            start,
            end,
            now=now,
            closed=self._closed(revision, definition),
        )
        with scratch(self.settings.run) as mine:
            builder = self._builder(revision, definition, mine.folder)
            with _computing(table):
                piece = builder.interval(first, last)
            arguments = {
                "revision": revision.revision,
                "start": first,
                "end": last,
                "files": [str(builder.path / a["add"]["path"]) for a in piece.adds],
                "inputs": {p.name: p.version for p in builder.inputs.values()},
                "who": who,
                "why": why,
            }
            told = mine.handed_over(self._ask, table, arguments)
        return {"table": table, "rows_in": piece.rows_in, **told}

    def _corrected(
        self,
        revision: Revision,
        definition: Table,
        first: int,
        last: int,
        on: str | None,
        *,
        who: str,
        why: str,
    ) -> dict[str, Any]:
        """The same for a table without windows, and for sessions."""
        table = str(definition.name)
        if isinstance(definition.kind, Session):
            self._ask(table, "reconcile", {})  # late rows count first: the batch counts them too
        with scratch(self.settings.run) as mine:
            log = self._log(revision, definition)  # one look: inputs and rows as of one commit
            inputs = self._pinned(log, revision, definition)
            held = self._held(log, revision, definition)
            job = self._correction(revision, definition, held, inputs)
            with _computing(table):
                told = job.written(first, last, on, mine.folder)
            info = {
                "job": mine.folder.name,
                "start": first,
                "end": last,
                "who": who,
                "why": why,
            }
            versions = {p.name: p.version for p in inputs.values()}
            arguments = {"revision": revision.revision, "inputs": versions, "info": info}
            done = mine.handed_over(self._ask, table, {**told, **arguments})
        read = sum(f.rows for p in inputs.values() if p.version >= 0 for f in p.files(None))
        return {"table": table, "rows_in": read, "results": told["results"], **done}

    def _correction(
        self, revision: Revision, definition: Table, held: Held, inputs: Mapping[str, Pinned]
    ) -> Correction:
        catalog = self._catalog(revision)
        stream = catalog.stream_of(definition)
        return Correction(
            self.session,
            definition,
            held,
            inputs,
            decodes=stream,
            schemas=SchemaRegistry(self.settings.registry_url) if stream is not None else None,
            declared={
                str(name): catalog.time_of(name)
                for name in (definition.name, *definition.inputs.values())
            },
        )

    def _log(self, revision: Revision, definition: Table) -> DeltaTable:
        name = definition.name
        return delta_table(revision_path(self.settings.warehouse, name, revision.revision))

    def _held(self, log: DeltaTable, revision: Revision, definition: Table) -> Held:
        """The table and what stands beside it."""
        return Held(
            revision_path(self.settings.warehouse, definition.name, revision.revision),
            log.version(),
            arrow_fields(revision.declared["schema"]),
            self._beside(definition.name.quarantine, revision, quarantine.SCHEMA),
            self._beside(definition.name.late, revision, late.SCHEMA),
            log.transaction_version(f"{revision.revision}:watermark"),
        )

    def _beside(self, name: TableName, revision: Revision, schema: pa.Schema) -> pa.Table:
        path = revision_path(self.settings.warehouse, name, revision.revision)
        return delta_table(path).to_pyarrow_table().cast(schema)

    def _closed(self, revision: Revision, definition: Table) -> int | None:
        """The first result that is still open, as the table last committed it."""
        kind = definition.kind
        log = self._log(revision, definition)
        told = log.transaction_version(f"{revision.revision}:watermark")
        if told is None or not isinstance(kind, Timed) or isinstance(kind, Session):
            return None
        limit = geometry_of(kind, list(definition.inputs)).limit(told)
        if isinstance(kind, Window):  # the last window that begins before the limit is closed too
            every, offset = kind.us("every"), kind.us("offset")
            return limit + (offset - limit) % every
        return limit

    def _builder(self, revision: Revision, definition: Table, folder: Path) -> HistoryBuilder:
        return HistoryBuilder(
            self.session,
            definition,
            into=folder / "table",
            beside=folder / "outcomes",
            schema=arrow_fields(revision.declared["schema"]),
            inputs=self._pinned(self._log(revision, definition), revision, definition),
            condemned=self._condemned(revision, definition),
        )

    def _condemned(self, revision: Revision, definition: Table) -> set[str]:
        """Rows of its first input that the table has set apart."""
        first = str(next(iter(definition.inputs.values())))
        broken = self._beside(definition.name.quarantine, revision, quarantine.SCHEMA)
        return {r["row_id"] for r in broken.to_pylist() if r["source"] == first}

    def _pinned(self, log: DeltaTable, revision: Revision, definition: Table) -> dict[str, Pinned]:
        """The inputs as the table has taken them in."""
        known = {(r.table, r.revision): r for r in self.registry.revisions()}
        inputs = {}
        for argument, source in definition.inputs.items():
            version = log.transaction_version(f"{revision.revision}:{source}")
            at = -1 if version is None else version
            if source.layer == "bronze":
                where = live_path(self.settings.warehouse, source)
                inputs[argument] = Pinned(str(source), where, bronze_schema(), at)
                continue
            upstream = known[str(source), revision.inputs[str(source)]]
            where = revision_path(self.settings.warehouse, source, upstream.revision)
            schema = arrow_fields(upstream.declared["schema"])
            inputs[argument] = Pinned(str(source), where, schema, at)
        return inputs

    # --- all of it ------------------------------------------------------------------------------
    def stage_again(self, table: str, *, who: str, why: str, share: float = 1.0) -> str:
        """Stage another generation of a live table and of what reads it; returns the release.

        Going on with one that is staged already is the same command.
        """
        self._live(table)
        live = {r.table: r for r in self.registry.revisions(states=(State.LIVE,))}
        stager = Stager(self.session, self.settings, self.registry)
        chosen = _with_readers(live, table)
        begun = _begun(stager.staging.candidates(), live, chosen)
        if begun is not None:
            for name in chosen:
                stager.staging.pace(name, share=share)
            return begun
        names = {t: stager.free_name(TableName.parse(t), live[t].revision) for t in chosen}
        release = f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}-again"
        staged = []
        for name in chosen:
            old = live[name]
            inputs = {source: names.get(source, pin) for source, pin in old.inputs.items()}
            again = replace(old, revision=names[name], state=State.CANDIDATE, inputs=inputs)
            how = self._how(old)
            candidate = Candidate(
                name, names[name], release, how,
                build=Build.BUILDING if how == How.BATCH else Build.BUILT,
                share=share, asked_by=who, reason=why,
            )  # fmt: skip
            staged.append((again, candidate))
        stager.staging.add(staged)
        return release

    def _how(self, revision: Revision) -> str:
        catalog = self._catalog(revision)
        table = catalog.tables[TableName.parse(revision.table)]
        return how_built(table, decodes=catalog.stream_of(table) is not None)

    def build(self, release: str, tell: Callable[..., None], wait: Callable[..., None]) -> None:
        """Build what was staged again, and let it catch up."""
        stager = Stager(self.session, self.settings, self.registry)
        stager.build(release, tell)
        stager.wait_ready(release, seconds=None, tell=wait)  # the swap does not come by itself


@contextmanager
def _computing(table: str) -> Iterator[None]:
    """What Spark says of a failure, in words; nothing was changed by then."""
    try:
        yield
    except BROKEN_TRANSFORM as error:
        if is_data_error(error):
            raise TransformError(
                f"{table}: a row of the interval breaks its transform: {in_a_line(error)}",
                remedy=f"Mend the row at its source, or build the table anew, which sets such rows "
                f"apart: `penstock backfill {table} --all --why '...'`.",
            ) from error
        raise PenstockError(
            f"computing the interval of {table} failed: {in_a_line(error)}",
            remedy="Nothing was changed. See to that, then run the backfill again.",
        ) from error


def _with_readers(live: dict[str, Revision], table: str) -> list[str]:
    """A table and all that reads it, each after what it reads."""
    chosen: list[str] = []
    edge = [table]
    while edge:
        name = edge.pop(0)
        if name in chosen:
            chosen.remove(name)  # read by a later one too: it comes after that
        chosen.append(name)
        edge += [r.table for r in live.values() if name in r.inputs]
    return chosen


def _begun(
    staged: Sequence[Candidate], live: Mapping[str, Revision], chosen: Sequence[str]
) -> str | None:
    """The release that is another generation of exactly these tables, if one is staged."""
    releases = {c.release for c in staged if c.table in chosen}
    together = [c for c in staged if c.release in releases]
    if len(releases) != 1 or {c.table for c in together} != set(chosen):
        return None
    same = all(
        fingerprint_of(c.revision) == fingerprint_of(live[c.table].revision) for c in together
    )
    return together[0].release if same else None
