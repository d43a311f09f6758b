"""Maintenance of a stack: merge small files, clean logs up, remove what nobody can ask for.

**Purpose.** History must not grow without bound, and reading must cost the same after the ten
thousandth commit as after the hundredth.

**How it works.** Runs in a process of its own, modestly. Three steps: files are merged here and
committed by the writer of their table (``ask``); then it is gathered who needs which version
(``needs``); then logs are cleaned up to there, and data files that no kept version refers to are
removed. Each step can be interrupted and begun again.

**How long things are kept.** Versions of a live table for its declared ``retention``. Logs of
bronze and of revisions, which people do not travel in, for a day. Everything for as long as
somebody needs it. Bytes that no version refers to for a day more, or the retention if that is
shorter, because a commit may still come that names them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError
from penstock.location import Location, below, delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.clean import clean
from penstock.runtime.delta.log_files import LogFiles
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.kept import retention_of
from penstock.runtime.registry import Revision, State
from penstock.runtime.upkeep.claims import Claim
from penstock.runtime.upkeep.merge import CHANGING, GROWING, Closed, Merger, clear_notes
from penstock.runtime.upkeep.needs import BESIDE, Needs, gather, pending
from penstock.runtime.upkeep.vacuum import Kept, vacuum

__all__ = ["DAY", "HOUR", "Maintained", "Maintenance", "Pace"]

Ask = Callable[[str, str, dict[str, Any]], dict[str, Any]]

DAY = 86_400.0
HOUR = 3_600.0
_POINTS = {"window": "window_start", "session": "window_start", "sliding": "window_end"}
_FAR_BEHIND = 500  # commits without a row that live has not noted


@dataclass(frozen=True)
class Pace:
    """How much is done in one run, and how soon.

    Args:
        retention: seconds; None: as declared.
        internal: seconds that logs of bronze and of revisions are kept.
        min_age: seconds since a file was written, until it may be merged.
        budget: bytes of files of one table that are merged in one run.
        share: of the time; the rest is rest.
        least: commits worth cleaning up by themselves, where no file waits for them to go.
    """

    retention: float | None = None
    internal: float = DAY
    min_age: float = 600.0
    safe_age: float = DAY
    budget: int = 4 << 30
    share: float = 0.5
    least: int = 100
    dry_run: bool = False


@dataclass(frozen=True)
class Place:
    """One log: of bronze, of a revision or what lies beside it, or of a live table."""

    path: Location
    part: str = "table"
    revision: Revision | None = None
    live: bool = False


@dataclass
class Maintained:
    """What was done for one table."""

    table: str
    files_before: int = 0
    files_after: int = 0
    merges: int = 0
    bytes_rewritten: int = 0
    commits_removed: int = 0
    files_removed: int = 0
    bytes_freed: int = 0
    oldest_version: int | None = None  # that readers can travel to
    waits_for: list[str] = field(default_factory=list)  # who holds cleanup back
    problems: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # in a dry run: what would go
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "seconds": round(self.seconds, 2)}


class Maintenance:
    """One run over the tables of a stack.

    Args:
        revisions: those that are fed.
        ask: has the writer of a table do something, and waits for it.
        say: hears of progress.
    """

    def __init__(
        self,
        warehouse: Location,
        revisions: Iterable[Revision],
        ask: Ask,
        *,
        claims: Iterable[Claim] = (),
        pace: Pace | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._warehouse = warehouse
        self._revisions = list(revisions)
        self._ask = ask
        self._claims = list(claims)
        self._pace = pace or Pace()
        self._say = say

    def tables(self) -> list[str]:
        """Every table there is something to do for: bronze first."""
        bronze = {s for r in self._revisions for s in r.inputs if s.startswith("bronze.")}
        return [*sorted(bronze), *sorted({r.table for r in self._revisions})]

    def run(self, tables: Iterable[str] | None = None) -> list[Maintained]:
        chosen = list(tables) if tables is not None else self.tables()
        done = {name: Maintained(name) for name in chosen}
        for name in chosen:
            with _timed(done[name]):
                self._merge(done[name])
        needs = gather(self._warehouse, self._revisions, self._claims)
        for name in chosen:
            with _timed(done[name]):
                self._clean(done[name], needs)
        return list(done.values())

    # --- what there is --------------------------------------------------------------------
    def _places(self, table: str) -> list[Place]:
        name = TableName.parse(table)
        if name.layer == "bronze":
            found = [Place(live_path(self._warehouse, name))]
        else:
            parts = {"table": name, **{part: getattr(name, part) for part in BESIDE}}
            found = [
                Place(revision_path(self._warehouse, own, r.revision), part, r)
                for r in self._revisions
                if r.table == table
                for part, own in parts.items()
            ]
            live = [Place(live_path(self._warehouse, n), p, live=True) for p, n in parts.items()]
            found += live
        return [place for place in found if (place.path / "_delta_log").exists()]

    def _live(self, table: str) -> Revision | None:
        mine = [r for r in self._revisions if r.table == table]
        return next((r for r in mine if r.state == State.LIVE), mine[0] if mine else None)

    # --- merging --------------------------------------------------------------------------
    def _merge(self, done: Maintained) -> None:
        for place in self._places(done.table):
            if place.live or (place.path / "_build").exists():
                continue
            try:
                self._merge_place(done, place)
            except PenstockError as error:  # one table is parked: the others are not
                done.problems.append(str(error))
        try:
            self._mark(done.table)
        except PenstockError as error:
            done.problems.append(str(error))

    def _merge_place(self, done: Maintained, place: Place) -> None:
        merger = self._merger(place)
        done.files_before += len(merger.files)
        done.files_after += len(merger.files)
        if self._pace.dry_run:
            for group in merger.groups():
                done.merges += 1
                done.bytes_rewritten += sum(unit.size for unit in group)
                done.files_after -= sum(len(unit.adds) for unit in group) - 1
            return
        clear_notes(place.path)
        began = time.monotonic()
        for note, merge in merger.merges(self._pace.budget):
            files = len(merge.out)
            self._say(f"{done.table}: {files} files of {place.part} are one ({merge.size} bytes)")
            self._ask(done.table, "compact", {"part": place.part, "note": note, **_of(place)})
            done.merges += 1
            done.bytes_rewritten += merge.size
            done.files_after -= files - 1
            spent = time.monotonic() - began
            time.sleep(min(spent / self._pace.share - spent, 30.0))
            began = time.monotonic()

    def _merger(self, place: Place) -> Merger:
        meaning = place.revision.declared.get("meaning", {}) if place.revision else {}
        grows = place.revision is None or place.part == "outcomes"
        if place.part == "table":
            grows = grows or meaning.get("kind") == "rows"
        closed = _closed(place, meaning) if place.part == "table" else None
        return Merger(
            place.path,
            full=GROWING if grows else CHANGING,
            min_age=self._pace.min_age,
            closed=closed,
        )

    def _mark(self, table: str) -> None:
        """Have live note how far it shows its revision, if that is long ago."""
        revision = self._live(table)
        if revision is None or revision.state != State.LIVE or self._pace.dry_run:
            return
        marker = f"mirror:{revision.revision}"
        places = self._places(table)
        lives = {p.part: p.path for p in places if p.live}
        for place in places:
            if place.revision is not revision or place.part not in lives:
                continue
            shown = delta_table(lives[place.part]).transaction_version(marker) or 0
            if LogFiles.listed(place.path).newest - shown > _FAR_BEHIND:
                self._ask(table, "mark", {})
                return

    # --- cleaning up ----------------------------------------------------------------------
    def _clean(self, done: Maintained, needs: Needs) -> None:
        kept: list[Kept] = []
        for place in self._places(done.table):
            files = LogFiles.listed(place.path)
            wanted = files.as_of(time.time() - self._kept_for(done.table, place))
            keep = max(needs.keep(place.path, wanted), files.start)
            done.waits_for += [
                f"{n.who} at {n.version}" for n in needs.of(place.path) if n.version < wanted
            ]
            told = clean(
                place.path,
                keep,
                archive=not place.live,
                least=self._pace.least,
                dry_run=self._pace.dry_run,
            )
            done.commits_removed += told.commits
            done.bytes_freed += told.bytes
            if place.part == "table" and (place.live or place.revision is None):
                done.oldest_version = told.start
            # A log may begin before what has to stay: whoever begins there needs its files too.
            kept.append(Kept(place.path, min(keep, told.start)))
        self._vacuum(done, kept)

    def _kept_for(self, table: str, place: Place) -> float:
        if not place.live:
            return self._pace.internal
        if self._pace.retention is not None:
            return self._pace.retention
        revision = self._live(table)
        return retention_of(revision) if revision is not None else DAY

    def _vacuum(self, done: Maintained, kept: list[Kept]) -> None:
        busy = {
            (r.revision, part)
            for r in self._revisions
            if r.table == done.table
            for part in pending(self._warehouse, r)
        }
        folders = [
            place.path
            for place in self._places(done.table)
            if place.revision is None or (place.revision.revision, place.part) not in busy
        ]
        safe, dry = self._pace.safe_age, self._pace.dry_run
        told = vacuum(folders, kept, safe_age=safe, dry_run=dry)
        done.files_removed += len(told.files)
        done.bytes_freed += told.bytes
        if dry:
            done.removed = [below(file, self._warehouse) for file in told.files]


def _of(place: Place) -> dict[str, Any]:
    return {} if place.revision is None else {"revision": place.revision.revision}


def _closed(place: Place, meaning: dict[str, Any]) -> Closed | None:
    """Of a table with intervals: those that no row can reach in-band any more."""
    if place.revision is None or "updatable_for_us" not in meaning:
        return None
    log, revision = delta_table(place.path), place.revision.revision
    watermark = log.transaction_version(f"{revision}:watermark")
    reach = meaning.get("size_us", 0) + meaning.get("gap_us", 0) + meaning["updatable_for_us"]
    point = _POINTS.get(meaning["kind"], meaning["on"])
    return Closed(point, (watermark if watermark is not None else 0) - reach)


@contextmanager
def _timed(done: Maintained) -> Iterator[None]:
    """Adds how long something took."""
    began = time.monotonic()
    try:
        yield
    finally:
        done.seconds += time.monotonic() - began
