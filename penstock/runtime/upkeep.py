"""Upkeep of Delta logs, off the hot path.

Two or three commits a second would make every reader replay a long log. A checkpoint each hundred
commits keeps that short; commits older than the log's retention are removed. Neither is a commit,
so neither needs the lease.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from penstock.runtime.delta_log import DeltaLog

__all__ = ["Upkeep"]

log = logging.getLogger("penstock.upkeep")

EVERY_COMMITS = 100
LOOK_SECONDS = 5.0
CLEAN_EVERY = 50  # checkpoints


class Upkeep:
    """A thread that checkpoints and cleans the logs of all tables of a supervisor."""

    def __init__(self, logs: Callable[[], list[DeltaLog]]) -> None:
        self._logs = logs
        self._done: dict[Path, int] = {}
        self._count: dict[Path, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _live(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for delta_log in self._logs():
                if self._stopping.is_set():
                    return
                self._look(delta_log)

    def _look(self, delta_log: DeltaLog) -> None:
        path, version = delta_log.path, delta_log.version
        if version - self._done.setdefault(path, version - version % EVERY_COMMITS) < EVERY_COMMITS:
            return
        try:
            table = DeltaTable(str(path))
            table.create_checkpoint()
            self._count[path] = self._count.get(path, 0) + 1
            if self._count[path] % CLEAN_EVERY == 0:
                table.cleanup_metadata()
        except Exception as error:  # upkeep is a courtesy to readers: it must not stop anything
            log.warning("no checkpoint of %s at %d: %s", path, version, error)
        self._done[path] = version
