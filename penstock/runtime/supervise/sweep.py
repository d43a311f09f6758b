"""Ends of revisions: warm ones are retired when their time is up, retired ones lose their bytes.

A retired revision's files stay until no version of the live table that readers were promised (its
retention) points at them: whoever travels back in time that far finds them. And until no reader
that has a claim on the live table has to go through versions that show them.
"""

from __future__ import annotations

import logging
from typing import Any

from deltalake.exceptions import DeltaError

from penstock.location import delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.swap import promoted
from penstock.runtime.delta.writer import live_path
from penstock.runtime.kept import retention_of
from penstock.runtime.registry import Registry, State
from penstock.runtime.staging import Staging
from penstock.runtime.supervise.ends import Forgetful, delete_revision, referenced
from penstock.runtime.supervise.standing import World
from penstock.runtime.upkeep.claims import Claims
from penstock.settings import Settings

__all__ = ["KEEP_SECONDS", "Sweep", "sweep"]

log = logging.getLogger("penstock.sweep")

KEEP_SECONDS = 24 * 3600.0  # at least: as long as a warm revision is kept by default


class Sweep:
    """A chore: looks at the registry now and then, and cleans up what is due."""

    def __init__(
        self, settings: Settings, streams: Forgetful, keep_seconds: float | None = None
    ) -> None:
        self._settings = settings
        self._streams = streams
        self._keep = keep_seconds  # None: as long as each table's versions are
        self.retired: list[str] = []
        self.kept: list[str] = []  # whose bytes would go, were it not for a claim

    def __call__(self) -> list[str]:
        """Returns what was dropped."""
        registry = Registry(self._settings)
        try:
            return self._swept(registry)
        finally:
            registry.close()

    def _swept(self, registry: Registry) -> list[str]:
        staging, dropped = Staging(registry), []
        self.kept = []  # of this look: a claim may stand for weeks
        readers = {(t, r) for one in registry.revisions() for t, r in one.inputs.items()}
        for table, revision in staging.overdue():
            if not self._streams.answers_for(table):
                continue  # another supervisor does
            if (table, revision) in readers:
                continue  # what reads it goes first
            if self._shown(table, revision):
                continue  # nobody would feed what readers see
            staging.move(table, revision, to=State.RETIRED)
            self.retired.append(f"{table}@{revision}")
            log.info("%s@%s was warm for as long as promised: retired", table, revision)
        for table, revision in self._droppable(registry, staging):
            if not self._streams.answers_for(table):
                continue
            if self._shown(table, revision):
                continue
            if reader := self._claimed(staging, table, revision):
                self.kept.append(f"{table}@{revision} for {reader}")
                continue
            self._streams.forget(table, revision)
            freed = delete_revision(self._settings, TableName.parse(table), revision)
            staging.forget(table, revision)
            log.info("%s@%s is dropped: %d bytes", table, revision, freed)
            dropped.append(f"{table}@{revision}")
        return dropped

    def _shown(self, table: str, revision: str) -> bool:
        """Whether live, or what lies beside it, still shows a revision whose time is up."""
        try:
            if not referenced(self._settings, table, revision):
                return False
            log.error(
                "the time of %s@%s is up, and live still shows it: see `penstock releases %s`",
                table, revision, table,
            )  # fmt: skip
        except DeltaError as error:  # nothing goes before it is known; the others must not wait
            log.error("the live log of %s cannot be read: %s", table, error)
        return True

    def _claimed(self, staging: Staging, table: str, revision: str) -> str:
        """Who has a claim from before live let go of a revision; empty: nobody."""
        swaps = staging.promotions(table)
        last = next((swap for swap in swaps if swap.replaced == revision), None)
        if last is None:
            return ""  # live never showed it
        name = TableName.parse(table)
        beside = {str(one): one for one in (name, name.quarantine, name.late, name.outcomes)}
        for claim in Claims(self._settings.home).all():
            if claim.is_over or claim.table not in beside:
                continue
            path = live_path(self._settings.warehouse, beside[claim.table])
            if not (path / "_delta_log").exists():
                continue
            # By the log, not by the promotion: those beside the table count for themselves.
            since = delta_table(path).transaction_version(promoted(last.revision))
            if since is None or claim.version < since:
                return claim.who
        return ""

    def _droppable(self, registry: Registry, staging: Staging) -> list[tuple[str, str]]:
        if self._keep is not None:
            return staging.droppable(self._keep)
        gone = registry.revisions(states=(State.RETIRED,))
        live = {r.table: r for r in registry.revisions(states=(State.LIVE,))}
        kept = {r.table: max(KEEP_SECONDS, retention_of(live.get(r.table, r))) for r in gone}
        due = {seconds: set(staging.droppable(seconds)) for seconds in set(kept.values())}
        found = [(r.table, r.revision) for r in gone]
        return [one for one in found if one in due[kept[one[0]]]]


def sweep(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Clean up what is due now, and say what is warm and until when."""
    chore = Sweep(world.settings, world)
    dropped = chore()
    warm = Staging(registry).warm()
    return {"retired": chore.retired, "dropped": dropped, "kept": chore.kept, "warm": warm}
