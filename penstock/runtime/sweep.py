"""Ends of revisions: warm ones are retired when their time is up, retired ones lose their bytes.

A retired revision's files stay until no version of the live table that readers were promised
(`KEEP_SECONDS`) points at them: whoever travels back in time that far finds them.
"""

from __future__ import annotations

import logging

from penstock.model.names import TableName
from penstock.runtime.ends import Forgetful, delete_revision, referenced
from penstock.runtime.registry import Registry, State
from penstock.runtime.staging import Staging
from penstock.settings import Settings

__all__ = ["KEEP_SECONDS", "Sweep"]

log = logging.getLogger("penstock.sweep")

KEEP_SECONDS = 24 * 3600.0  # as long as the tables' own properties promise deleted files


class Sweep:
    """A chore: looks at the registry now and then, and cleans up what is due."""

    def __init__(
        self, settings: Settings, streams: Forgetful, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        self._settings = settings
        self._streams = streams
        self._keep = keep_seconds

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
            if (table, revision) not in readers:  # what reads it goes first
                staging.move(table, revision, to=State.RETIRED)
                log.info("%s@%s was warm for as long as promised: retired", table, revision)
        for table, revision in staging.droppable(self._keep):
            if referenced(self._settings, table, revision):
                log.error("%s@%s is retired, and live still shows it", table, revision)
                continue
            self._streams.forget(table, revision)
            freed = delete_revision(self._settings, TableName.parse(table), revision)
            staging.forget(table, revision)
            log.info("%s@%s is dropped: %d bytes", table, revision, freed)
            dropped.append(f"{table}@{revision}")
        return dropped
