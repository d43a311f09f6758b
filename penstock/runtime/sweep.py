"""Ends of revisions: warm ones are retired when their time is up, retired ones lose their bytes.

A retired revision's files stay until no version of the live table that readers were promised (its
retention) points at them: whoever travels back in time that far finds them.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.model.names import TableName
from penstock.runtime.ends import Forgetful, delete_revision, referenced
from penstock.runtime.kept import retention_of
from penstock.runtime.registry import Registry, State
from penstock.runtime.staging import Staging
from penstock.runtime.standing import World
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

    def __call__(self) -> list[str]:
        """Returns what was dropped."""
        registry = Registry(self._settings)
        try:
            return self._swept(registry)
        finally:
            registry.close()

    def _swept(self, registry: Registry) -> list[str]:
        staging, dropped = Staging(registry), []
        readers = {(t, r) for one in registry.revisions() for t, r in one.inputs.items()}
        for table, revision in staging.overdue():
            if not self._streams.answers_for(table):
                continue  # another supervisor does
            if (table, revision) not in readers:  # what reads it goes first
                staging.move(table, revision, to=State.RETIRED)
                self.retired.append(f"{table}@{revision}")
                log.info("%s@%s was warm for as long as promised: retired", table, revision)
        for table, revision in self._droppable(registry, staging):
            if not self._streams.answers_for(table):
                continue
            if referenced(self._settings, table, revision):
                log.error("%s@%s is retired, and live still shows it", table, revision)
                continue
            self._streams.forget(table, revision)
            freed = delete_revision(self._settings, TableName.parse(table), revision)
            staging.forget(table, revision)
            log.info("%s@%s is dropped: %d bytes", table, revision, freed)
            dropped.append(f"{table}@{revision}")
        return dropped

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
    return {"retired": chore.retired, "dropped": dropped, "warm": Staging(registry).warm()}
