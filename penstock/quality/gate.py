"""Checking tables at a boundary: pin, check, keep the results, show them, hold what must be held.

**How it works.** Each table is checked at one version by its suite. Its rows go to
``quality.results`` before anything else happens, so what is held can always be looked up. A
blocking failure holds the live table, and nothing else: the stream goes on. A later run that
passes lets go what quality held and nobody else does.

**What it does not do.** Stop a stream, take rows back out of a live table, or decide about an
export or a promote: those who do ask for the exit code, or for `standing`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.lineage.graph import read_manifest
from penstock.quality.check import Outcome, mute, run_suite
from penstock.quality.failing import where_from
from penstock.quality.frames import opened
from penstock.quality.load import BrokenSuite, Loaded, find_suite, load_suites, suite_names
from penstock.quality.pinned import CANDIDATE, Pinned, pin_candidate, pin_table
from penstock.quality.results import Occasion, keep, newest, records
from penstock.quality.suite import BOUNDARIES, Check
from penstock.runtime.registry import Registry, State
from penstock.runtime.staging import Hold, Staging

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Checked", "Gate", "Run", "check_candidate", "standing"]

_LAYERS = {"silver": ("bronze", "silver"), "gold": ("gold",), "export": ("gold",)}
Tell = Callable[[str, Check], None]


@dataclass
class Checked:
    """One table, at one version."""

    table: str
    boundary: str
    state: str = ""
    revision: str = ""
    version: int = -1
    rows: int = 0
    suite: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # live tables that stand still because of it
    released: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    newest: bool = True
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        """Blocking checks that failed or could not be made."""
        return [one.check.name for one in self.outcomes if one.stops]

    def as_dict(self) -> dict[str, Any]:
        left_out = ("outcomes", "newest")
        told = {k: v for k, v in vars(self).items() if k not in left_out}
        return {**told, "passed": not self.failures, "failures": self.failures}


@dataclass
class Run:
    """Everything one call came to."""

    occasion: Occasion
    tables: list[Checked] = field(default_factory=list)
    broken: list[BrokenSuite] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # table -> why it was not checked
    site: str = ""

    @property
    def failures(self) -> dict[str, list[str]]:
        return {one.table: one.failures for one in self.tables if one.failures}

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.occasion.run,
            "at": self.occasion.at.isoformat(),
            "boundary": self.occasion.boundary,
            "passed": not self.failures and not self.broken,
            "failures": self.failures,
            "tables": [one.as_dict() for one in self.tables],
            "broken": [vars(one) for one in self.broken],
            "skipped": self.skipped,
            "site": self.site,
        }


class Gate:
    """Checks tables of one stack."""

    def __init__(
        self,
        settings: Settings,
        *,
        hold: bool = True,
        tell: Tell = lambda table, check: None,
    ) -> None:
        self._settings = settings
        self._hold = hold
        self._tell = tell
        self._entries = read_manifest(settings)
        self._holds, self._registry_error = self._read_holds()

    def run(self, tables: Sequence[str], boundary: str, at: str | None = None) -> Run:
        """Check tables, by default all that a boundary is about.

        Raises:
            UsageError: a table that is not there, or (other than before a promote) has no suite.
        """
        mute()
        run = Run(Occasion.now(boundary))
        if tables:
            suites = self._asked_for(run, tables, boundary)
        else:
            suites, run.broken = self._at_boundary(boundary)
        if boundary == "promote" and at is None:
            at = CANDIDATE
        for table in suites:
            try:
                pinned = pin_table(
                    self._settings, self._entries, table, at=at, held=set(self._holds)
                )
            except UsageError as error:
                if tables:
                    raise
                run.skipped[table] = error.message
                continue
            run.tables.append(self._checked(run, suites[table], pinned))
        run.site = self._published(run)
        return run

    # --- which tables ---------------------------------------------------------------------
    def _asked_for(self, run: Run, tables: Sequence[str], boundary: str) -> dict[str, Loaded]:
        """Their suites; a candidate without one is not stopped by that."""
        suites = {}
        for table in dict.fromkeys(tables):
            found = find_suite(self._settings.expectations, table)
            if isinstance(found, Loaded):
                suites[table] = found
            elif found is not None:
                run.broken.append(found)
            elif boundary == "promote":
                run.skipped[table] = f"{table} has no suite."
            else:
                known = ", ".join(suite_names(self._settings.expectations)) or "no table"
                raise UsageError(
                    f"{table} has no suite.",
                    remedy=f"Suites are in expectations/; there are some for {known}.",
                )
        return suites

    def _at_boundary(self, boundary: str) -> tuple[dict[str, Loaded], list[BrokenSuite]]:
        if boundary not in BOUNDARIES:
            raise UsageError(
                f"there is no boundary {boundary!r}.", remedy=f"Write {', '.join(BOUNDARIES)}."
            )
        good, broken = load_suites(self._settings.expectations)
        layers = _LAYERS.get(boundary)

        def meant(table: str) -> bool:
            if layers is None:
                return table in self._candidates
            return table.partition(".")[0] in layers and table in self._entries

        return (
            {table: suite for table, suite in good.items() if meant(table)},
            [one for one in broken if meant(one.table)],
        )

    @property
    def _candidates(self) -> set[str]:
        found = Registry(self._settings).revisions(states=(State.CANDIDATE,))
        return {one.table for one in found}

    # --- one table ------------------------------------------------------------------------
    def _checked(self, run: Run, loaded: Loaded, pinned: Pinned) -> Checked:
        told = check(self._settings, self._entries, loaded, pinned, run.occasion, tell=self._tell)
        if self._hold and pinned.state != CANDIDATE:
            self._decide(told)
        return told

    def _decide(self, told: Checked) -> None:
        """Hold what failed; let go what passes and nobody but quality holds."""
        tables = self._live_of(told.table)
        try:
            if self._registry_error:
                raise NotRunning(self._registry_error)
            staging = Staging(Registry(self._settings))
            for table in tables:
                if told.failures:
                    reason = (
                        f"quality: {', '.join(told.failures)} failed on {told.table} "
                        f"version {told.version}"
                    )
                    staging.hold(table, reason, Hold.QUALITY)
                    told.held.append(table)
                elif told.newest and staging.release(table, held_by=Hold.QUALITY):
                    told.released.append(table)
        except PenstockError as error:
            if told.failures:
                told.notes.append(f"{', '.join(tables)} could not be held: {error.message}")

    def _live_of(self, table: str) -> list[str]:
        """Live tables that show a table's rows; bronze shows nothing, what decodes it does."""
        if not table.startswith("bronze."):
            return [table] if self._entries.get(table, {}).get("revision") else []
        return [
            name
            for name, entry in self._entries.items()
            if table in (entry.get("inputs") or {}).values() and entry.get("revision")
        ]

    def _read_holds(self) -> tuple[dict[str, Hold], str]:
        try:
            return Staging(Registry(self._settings)).holds(), ""
        except PenstockError as error:  # tables are files: they can be looked at all the same
            return {}, error.message

    def _published(self, run: Run) -> str:
        from penstock.quality.site import publish

        return str(publish(self._settings, run.tables, run.occasion))


def check(
    settings: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    loaded: Loaded,
    pinned: Pinned,
    occasion: Occasion,
    *,
    tell: Tell = lambda table, check: None,
) -> Checked:
    """Run a suite on a pinned table and keep what it came to."""
    started, boundary = time.perf_counter(), occasion.boundary
    if not pinned.keys:
        pinned = replace(pinned, keys=loaded.suite.keys)
    told = Checked(pinned.table, boundary, pinned.state, pinned.revision, pinned.version)
    told.newest, told.suite = pinned.newest, loaded.address
    scratch = settings.run / "quality"
    with opened(pinned, loaded.suite, scratch, whole=boundary == "promote") as frames:
        told.rows = frames.rows
        told.outcomes = run_suite(
            frames, loaded.suite, boundary, lambda one: tell(pinned.table, one)
        )
        for outcome in told.outcomes:
            if not outcome.success:
                outcome.failing = where_from(settings, entries, frames, outcome)
    told.results = records(occasion, pinned, loaded.address, told.outcomes)
    keep(settings, told.results, occasion.run)
    told.seconds = time.perf_counter() - started
    return told


# --- candidates ---------------------------------------------------------------------------
def check_candidate(
    settings: Settings, table: str, revision: str, version: int, keys: Sequence[str]
) -> dict[str, Any]:
    """A candidate at a version of its own log: what its suite says, for a comparison's report.

    A suite that cannot be loaded counts as failed: a gate nobody can look through is shut.
    """
    if table not in suite_names(settings.expectations):
        return {"suite": "none", "failures": [], "results": []}
    mute()
    found = find_suite(settings.expectations, table)
    if not isinstance(found, Loaded):
        reason = found.reason if found is not None else ""
        return {"suite": "broken", "failures": [f"its suite: {reason}"], "results": []}
    from penstock.quality.site import publish

    occasion = Occasion.now("promote")
    pinned = pin_candidate(settings, table, revision, version, keys)
    told = check(settings, read_manifest(settings), found, pinned, occasion)
    publish(settings, [told], occasion)
    return {"suite": found.address, "failures": told.failures, "results": told.results}


def standing(settings: Settings, table: str, revision: str) -> list[str] | None:
    """Blocking checks that the last run on a revision failed; None: nobody looked at it."""
    rows = newest(settings, table, revision)
    if not rows:
        return None
    return [
        row["check_name"] for row in rows if not row["success"] and row["severity"] == "blocking"
    ]
