"""Backfill: the code is right, the data was wrong. Same revision, computed again, net changes.

An interval of a table with windows is computed by a job of its own and handed to the table's
writer, which commits what differs while the stream goes on. A whole table, of any kind, is built
anew beside the live one as another *generation* of the same revision, with what reads it, and
swapped in like any other release.
"""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from penstock.errors import UsageError
from penstock.model.names import TableName
from penstock.model.windows import Session, Timed, Window
from penstock.reprocess.history import HistoryBuilder, Pinned, how_built
from penstock.reprocess.release import Ask
from penstock.reprocess.stage import Stager
from penstock.runtime.build import arrow_fields
from penstock.runtime.bundle import Bundle
from penstock.runtime.geometry import geometry_of
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import Build, Candidate, How
from penstock.runtime.times import EPOCH, moment
from penstock.runtime.writer import revision_path
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model.definition import Table

__all__ = ["Backfill", "checked_interval"]


def checked_interval(
    table: Table, start: dt.datetime, end: dt.datetime, *, now: dt.datetime, closed: int | None
) -> tuple[int, int]:
    """An interval as microseconds, if it can be backfilled; every reason it cannot is said.

    Args:
        closed: the first result that is still open, in microseconds.
    """
    kind = table.kind
    if not isinstance(kind, Timed) or isinstance(kind, Session):
        raise UsageError(
            f"{table.name} is a {kind.word} table: it has no intervals to replace.",
            remedy=f"Compute all of it again: `penstock backfill {table.name} --all`.",
        )
    if start >= end:
        raise UsageError(
            f"the interval ends at {end.isoformat()}, not after it begins ({start.isoformat()}).",
            remedy="Give --from before --to.",
        )
    if start > now or end > now:
        raise UsageError(f"{max(start, end).isoformat()} has not come yet.")
    first, last = ((at - EPOCH) // dt.timedelta(microseconds=1) for at in (start, end))
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
    """Backfills of one stack."""

    def __init__(
        self, session: SparkSession, settings: Settings, registry: Registry, ask: Ask
    ) -> None:
        self.session = session
        self.settings = settings
        self.registry = registry
        self._ask = ask

    def _live(self, table: str) -> tuple[Revision, Table]:
        live = [r for r in self.registry.revisions(states=(State.LIVE,)) if r.table == table]
        if not live:
            raise UsageError(f"there is no live table {table}.", remedy="See `penstock tables`.")
        bundle = Bundle(self.settings.bundles / live[0].bundle, self.settings.jobs)
        return live[0], bundle.catalog().tables[TableName.parse(table)]

    # --- an interval --------------------------------------------------------------------------
    def interval(
        self, table: str, start: dt.datetime, end: dt.datetime, *, who: str, why: str
    ) -> dict[str, Any]:
        """Compute an interval again and commit what differs."""
        revision, definition = self._live(table)
        first, last = checked_interval(
            definition,
            start,
            end,
            now=dt.datetime.now(dt.UTC),
            closed=self._closed(revision, definition),
        )
        scratch = self.settings.run / "backfill" / uuid.uuid4().hex
        try:
            builder = self._builder(revision, definition, scratch)
            piece = builder.interval(first, last)
            told = self._ask(
                table,
                "backfill",
                {
                    "start": first,
                    "end": last,
                    "files": [str(builder.path / a["add"]["path"]) for a in piece.adds],
                    "inputs": {p.name: p.version for p in builder.inputs.values()},
                    "who": who,
                    "why": why,
                },
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return {"table": table, "rows_in": piece.rows_in, **told}

    def _closed(self, revision: Revision, definition: Table) -> int | None:
        """The first result that is still open, as the table last committed it."""
        kind = definition.kind
        path = revision_path(self.settings.warehouse, definition.name, revision.revision)
        told = DeltaTable(str(path)).transaction_version(f"{revision.revision}:watermark")
        if told is None or not isinstance(kind, Timed) or isinstance(kind, Session):
            return None
        limit = geometry_of(kind, list(definition.inputs)).limit(told)
        if isinstance(kind, Window):  # the last window that begins before the limit is closed too
            every, offset = kind.us("every"), kind.us("offset")
            return limit + (offset - limit) % every
        return limit

    def _builder(self, revision: Revision, definition: Table, scratch: Any) -> HistoryBuilder:
        known = {(r.table, r.revision): r for r in self.registry.revisions()}
        path = revision_path(self.settings.warehouse, definition.name, revision.revision)
        log = DeltaTable(str(path))
        inputs = {}
        for argument, source in definition.inputs.items():
            upstream = known[str(source), revision.inputs[str(source)]]
            version = log.transaction_version(f"{revision.revision}:{source}")
            inputs[argument] = Pinned(
                str(source),
                revision_path(self.settings.warehouse, source, upstream.revision),
                arrow_fields(upstream.declared["schema"]),
                -1 if version is None else version,
            )
        return HistoryBuilder(
            self.session,
            definition,
            into=scratch / "table",
            beside=scratch / "outcomes",
            schema=arrow_fields(revision.declared["schema"]),
            inputs=inputs,
        )

    # --- all of it ------------------------------------------------------------------------------
    def stage_again(self, table: str, *, who: str, why: str, share: float = 1.0) -> str:
        """Stage another generation of a live table and of what reads it; returns the release."""
        self._live(table)
        live = {r.table: r for r in self.registry.revisions(states=(State.LIVE,))}
        stager = Stager(self.session, self.settings, self.registry)
        chosen = _with_readers(live, table)
        names = {t: stager.free_name(TableName.parse(t), live[t].revision) for t in chosen}
        release = f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}-again"
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
        catalog = Bundle(self.settings.bundles / revision.bundle, self.settings.jobs).catalog()
        table = catalog.tables[TableName.parse(revision.table)]
        return how_built(table, decodes=catalog.stream_of(table) is not None)

    def build(self, release: str, tell: Callable[..., None], wait: Callable[..., None]) -> None:
        """Build what was staged again, and let it catch up."""
        stager = Stager(self.session, self.settings, self.registry)
        stager.build(release, tell)
        stager.wait_ready(release, tell=wait)


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
