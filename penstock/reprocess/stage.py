"""Staging: candidates are registered, their history is built, and they catch up with what is live.

What has to go live together is staged together, as one *release*: a table, whatever changed of
what it reads, and all that reads any of these. Staging again what is staged goes on with it.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import PenstockError, UsageError, in_a_line
from penstock.location import delta_table
from penstock.model.names import TableName
from penstock.model.windows import Session, Timed
from penstock.reprocess.building import building, progress_of
from penstock.reprocess.history import HistoryBuilder, Pinned, Progress, how_built
from penstock.reprocess.plan import selection
from penstock.reprocess.request import Request, begins_as_asked
from penstock.reprocess.status import Status
from penstock.reprocess.waiting import wait_ready
from penstock.runtime.code.bundle import Bundle, store_bundle
from penstock.runtime.declared.analysis import Analysed, analysed_bundle
from penstock.runtime.declared.register import declared_of, fingerprint_of
from penstock.runtime.delta.writer import revision_path
from penstock.runtime.kinds.build import arrow_fields
from penstock.runtime.kinds.compute import BROKEN_TRANSFORM, is_data_error
from penstock.runtime.kinds.history import Workshop
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import Build, Candidate, How, Staging
from penstock.runtime.times import moment
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Stager"]

_LOOK = 1.0


@dataclass(frozen=True)
class _Tree:
    """What the working tree comes to, and what is live."""

    address: str
    found: Analysed
    live: Mapping[str, Revision]
    chosen: list[TableName]


class Stager:
    """Stages what one command asks for."""

    def __init__(self, session: SparkSession, settings: Settings, registry: Registry) -> None:
        self.session = session
        self.settings = settings
        self.registry = registry
        self.staging = Staging(registry)

    # --- registering candidates -----------------------------------------------------------
    def register(self, request: Request) -> str:
        """Make candidates of what changed; returns the name of the release.

        Going on with what is staged already is the same command: nothing is registered twice.
        """
        tree = self._tree(request.table)
        staged = {c.table: c for c in self.staging.candidates()}
        wanted = {str(name): tree.found.revisions[name] for name in tree.chosen}
        known = {t: fingerprint_of(staged[t].revision) for t in wanted if t in staged}
        if known == wanted:
            return self._resumed([staged[table] for table in wanted], request)
        self._require_history(tree, request)
        release = f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"
        names = {n: self.free_name(n, tree.found.revisions[n]) for n in tree.chosen}
        candidates = [self._candidate(tree, name, names, release, request) for name in tree.chosen]
        try:
            self.staging.add(candidates)
        except UsageError:  # perhaps the same command, typed twice, was a moment faster elsewhere
            now = {c.table: c for c in self.staging.candidates()}
            same = {t: fingerprint_of(now[t].revision) for t in wanted if t in now} == wanted
            if not same or staged.keys() & wanted.keys():
                raise
            return self._resumed([now[table] for table in wanted], request)
        return release

    def _resumed(self, staged: list[Candidate], request: Request) -> str:
        """Go on with what is staged, at the pace asked for now."""
        if not all(begins_as_asked(c.since, request) for c in staged):
            raise UsageError(
                f"{staged[0].table} is staged already, with another beginning.",
                remedy=f"Give that up first: `penstock abort {staged[0].table}`.",
            )
        if len({c.release for c in staged}) > 1:
            raise UsageError(
                f"several releases are staged ({', '.join(c.table for c in staged)}).",
                remedy=f"Name a table, one after the other: `penstock stage {staged[0].table}`.",
            )
        for candidate in staged:
            self.staging.pace(candidate.table, share=request.share)
        return staged[0].release

    def _tree(self, table: str | None) -> _Tree:
        address = store_bundle(self.settings.project, self.settings.jobs, self.settings.bundles)
        found = analysed_bundle(self.session, self.settings, address)
        catalog = found.catalog
        live = {r.table: r for r in self.registry.revisions(states=(State.LIVE,))}
        changed = [
            name
            for name, revision in found.revisions.items()
            if str(name) in live and fingerprint_of(live[str(name)].revision) != revision
        ]
        chosen = selection(catalog, changed, table)
        if not chosen:
            self._nothing(found, live, table)
        return _Tree(address, found, live, chosen)

    def _nothing(self, found: Analysed, live: Mapping[str, Revision], table: str | None) -> None:
        broken = [b for b in found.broken if table is None or b.what == table]
        if broken:
            raise UsageError(f"{broken[0].what} is broken: {broken[0].reason}")
        new = [str(n) for n in found.revisions if str(n) not in live and table in (None, str(n))]
        if new:
            raise UsageError(
                f"{', '.join(new)}: new, so there is nothing live to stage it beside.",
                remedy="To let it go live: `penstock register`.",
            )
        what = f"{table} means" if table else "the working tree means"
        raise UsageError(
            f"{what} what is live already: there is nothing to stage.",
            remedy="See `penstock plan`.",
        )

    def _candidate(
        self,
        tree: _Tree,
        name: TableName,
        names: Mapping[TableName, str],
        release: str,
        request: Request,
    ) -> tuple[Revision, Candidate]:
        catalog = tree.found.catalog
        table = catalog.tables[name]
        inputs = {}
        for source in table.inputs.values():
            if source in catalog.streams:
                inputs[str(source)] = ""
            else:
                if source not in names and str(source) not in tree.live:
                    raise UsageError(
                        f"{name} reads {source}, which was never registered.",
                        remedy="First: `penstock register`.",
                    )
                inputs[str(source)] = names.get(source) or tree.live[str(source)].revision
        how = how_built(table, decodes=catalog.stream_of(table) is not None)
        declared = declared_of(tree.found, name)
        revision = Revision(str(name), names[name], State.CANDIDATE, tree.address, inputs, declared)
        candidate = Candidate(
            str(name),
            names[name],
            release,
            how,
            build=Build.BUILDING if how == How.BATCH else Build.BUILT,
            since=request.since,
            share=request.share,
            asked_by=request.who,
            reason=request.why,
        )
        return revision, candidate

    def free_name(self, name: TableName, revision: str) -> str:
        """A revision that was built before and is not forgotten yet gets a number."""
        fingerprint = fingerprint_of(revision)
        states = (*State.FED, State.RETIRED)
        taken = {r.revision for r in self.registry.revisions(states=states) if r.table == str(name)}
        number, free = 1, fingerprint
        while free in taken:
            number += 1
            free = f"{fingerprint}-{number}"
        return free

    def _require_history(self, tree: _Tree, request: Request) -> None:
        """Refuse to begin where nothing is held, or where a kind needs all of it."""
        if request.since is None:
            return
        for name in tree.chosen:
            kind = tree.found.catalog.tables[name].kind
            if not isinstance(kind, Timed) or isinstance(kind, Session):
                raise UsageError(
                    f"{name} is a {kind.word} table: it needs its whole history.",
                    remedy="Stage it with --from BEGINNING.",
                )
            oldest = self._oldest(tree, name, kind.on)
            if oldest is not None and request.since < oldest and not request.partial:
                raise UsageError(
                    f"{name}: nothing is held from before {moment(oldest).isoformat()}.",
                    remedy="Stage --from BEGINNING for all there is, or add --partial to have it "
                    "marked as partial.",
                )

    def _oldest(self, tree: _Tree, name: TableName, on: str) -> int | None:
        """The oldest time in what a timed table reads, by the live revision of its input."""
        source = next(iter(tree.found.catalog.tables[name].inputs.values()))
        running = tree.live.get(str(source))
        if running is None:
            return None
        path = revision_path(self.settings.warehouse, source, running.revision)
        pinned = Pinned(str(source), path, pa.schema([]), delta_table(path).version())
        lows = [f.low for f in pinned.files(on) if f.low is not None]
        return min(lows, default=None)

    # --- building ---------------------------------------------------------------------------
    def build(self, release: str, tell: Callable[[str, Progress], None]) -> None:
        """Build the histories of a release, each after those it reads.

        One process builds a release. Another that is asked to waits, shows what the first has
        told, and goes on where that one was if it ends too early.
        """
        mine = building(self.settings, release)
        while not mine.taken():
            for candidate in self.staging.candidates(release):
                progress = progress_of(candidate.told)
                if candidate.build == Build.BUILDING and progress is not None:
                    tell(candidate.table, progress)
            time.sleep(_LOOK)
        with mine:
            self._build_all(release, tell)

    def _build_all(self, release: str, tell: Callable[[str, Progress], None]) -> None:
        known = {(r.table, r.revision): r for r in self.registry.revisions()}
        for candidate in self.staging.candidates(release):
            if candidate.how != How.BATCH or candidate.build == Build.BUILT:
                continue
            revision = known[candidate.table, candidate.revision]
            for source, pinned in revision.inputs.items():
                upstream = known.get((source, pinned))
                if upstream is not None and upstream.state == State.CANDIDATE:
                    self.wait_ready(release, only=source, seconds=None)
            self._build(candidate, revision, known, tell)

    def _build(
        self,
        candidate: Candidate,
        revision: Revision,
        known: Mapping[tuple[str, str], Revision],
        tell: Callable[[str, Progress], None],
    ) -> None:
        table, shop = candidate.table, None
        try:
            builder = self._builder(candidate, revision, known)
            shop = builder.shop
            builder.run(lambda progress: self._tell(candidate, progress, tell))
        except Exception as error:
            if is_data_error(error):
                self._follows_instead(candidate, shop, error)
                return
            self.staging.tell(table, candidate.revision, {"error": in_a_line(error)})
            if isinstance(error, BROKEN_TRANSFORM):
                raise _unbuilt(table, error) from error
            raise
        if self._asked_to_leave(candidate):
            raise UsageError(f"{table}: its candidate was aborted meanwhile.")
        self.staging.tell(table, candidate.revision, {"error": ""}, build=Build.BUILT)

    def _follows_instead(
        self, candidate: Candidate, shop: Workshop | None, error: Exception
    ) -> None:
        """Some row breaks the transform: following isolates such rows, a batch cannot."""
        if shop is not None:
            shop.clear()
        told = {"note": f"follows instead, because a batch fails: {in_a_line(error)}"}
        self.staging.tell(
            candidate.table, candidate.revision, told, build=Build.BUILT, how=How.FOLLOW
        )

    def _builder(
        self,
        candidate: Candidate,
        revision: Revision,
        known: Mapping[tuple[str, str], Revision],
    ) -> HistoryBuilder:
        bundle = Bundle(self.settings.bundles / revision.bundle, self.settings.jobs)
        definition = bundle.catalog().tables[TableName.parse(candidate.table)]
        shop = Workshop(revision_path(self.settings.warehouse, definition.name, candidate.revision))
        begun = shop.recipe
        inputs = {}
        for argument, source in definition.inputs.items():
            upstream = known[str(source), revision.inputs[str(source)]]
            path = revision_path(self.settings.warehouse, source, upstream.revision)
            version = begun.inputs[str(source)] if begun else delta_table(path).version()
            schema = arrow_fields(upstream.declared["schema"])
            inputs[argument] = Pinned(str(source), path, schema, version)
        warehouse, name = self.settings.warehouse, definition.name
        return HistoryBuilder(
            self.session,
            definition,
            into=revision_path(warehouse, name, candidate.revision),
            beside=revision_path(warehouse, name.outcomes, candidate.revision),
            schema=arrow_fields(revision.declared["schema"]),
            inputs=inputs,
            since=candidate.since,
        )

    def _tell(
        self, candidate: Candidate, progress: Progress, tell: Callable[[str, Progress], None]
    ) -> bool:
        """Between two pieces: say how far it is, rest as told, stop if it was given up."""
        self.staging.tell(candidate.table, candidate.revision, progress.as_dict())
        tell(candidate.table, progress)
        began = time.monotonic()
        while True:
            now = self._now(candidate)
            if now is None:
                return False
            if not now.paused:
                break
            time.sleep(_LOOK)
        if now.share < 1.0 and progress.done < progress.pieces:
            spent = progress.rows / max(progress.rows_per_second, 1.0) / progress.done
            time.sleep(max(0.0, spent / max(now.share, 0.01) - spent - (time.monotonic() - began)))
        return True

    def _now(self, candidate: Candidate) -> Candidate | None:
        found = self.staging.candidates(candidate.release)
        mine = [c for c in found if c.revision == candidate.revision and c.table == candidate.table]
        return mine[0] if mine else None

    def _asked_to_leave(self, candidate: Candidate) -> bool:
        return self._now(candidate) is None

    # --- catching up ------------------------------------------------------------------------
    def wait_ready(
        self,
        release: str,
        *,
        only: str | None = None,
        seconds: float | None = 3600.0,
        tell: Callable[[list[Status]], None] | None = None,
    ) -> list[Status]:
        """Wait until candidates have caught up with what is live."""
        return wait_ready(
            self.settings, self.registry, release, only=only, seconds=seconds, tell=tell
        )


def _unbuilt(table: str, error: Exception) -> PenstockError:
    """No row is to blame: what was built so far stays."""
    return PenstockError(
        f"building the history of {table} failed: {in_a_line(error)}",
        remedy="See to that, then type the command again: it goes on with the next piece.",
    )
