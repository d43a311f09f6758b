"""Upkeep of Delta logs, off the hot path.

Two or three commits a second would make every reader replay a long log. Checkpoints keep that
short: at first one each hundred commits, then fewer as a table gets more files, since each lists
them all. The newest two are kept, and one in ten thousand commits. A checkpoint is not a commit, so
it needs no lease. Commits themselves are removed by ``penstock maintain`` (``clean.py``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from penstock.location import Location, delta_table
from penstock.runtime.delta.clean import only_one
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.delta.log_files import LogFiles, checkpoint_file

__all__ = ["Upkeep"]

log = logging.getLogger("penstock.upkeep")

LEAST_COMMITS = 100
LOOK_SECONDS = 5.0
CHORE_SECONDS = 60.0
KEPT = 2
TRAVEL_COMMITS = 10_000  # between two checkpoints that stay: reading so many commits takes seconds


class Upkeep:
    """A thread that checkpoints the logs of all tables of a supervisor, and does its chores."""

    def __init__(
        self, logs: Callable[[], list[DeltaLog]], chores: Sequence[Callable[[], object]] = ()
    ) -> None:
        self._logs = logs
        self._chores = list(chores)
        self._next_chores = 0.0
        self._due: dict[Location, int] = {}
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
            if time.monotonic() >= self._next_chores:
                self._next_chores = time.monotonic() + CHORE_SECONDS
                self._do_chores()

    def _do_chores(self) -> None:
        for chore in self._chores:
            try:
                chore()
            except Exception as error:  # it is tried again in a minute
                log.warning("a chore failed: %s", error)

    def _look(self, delta_log: DeltaLog) -> None:
        path, version = delta_log.path, delta_log.version
        if version < self._due.setdefault(path, version - version % 100 + LEAST_COMMITS):
            return
        try:
            files = checkpoint(path)
        except Exception as error:  # upkeep is a courtesy to readers: it must not stop anything
            log.warning("no checkpoint of %s at %d: %s", path, version, error)
            files = 0
        self._due[path] = version + max(LEAST_COMMITS, files // 10)


def checkpoint(path: Location) -> int:
    """Checkpoint a log and drop superseded checkpoints; returns how many files the table has."""
    table = delta_table(path)
    table.create_checkpoint()
    with only_one(path) as alone:
        for version in superseded(LogFiles.listed(path)) if alone else []:
            checkpoint_file(path, version).unlink(missing_ok=True)
    return len(table.file_uris())


def superseded(log_files: LogFiles) -> list[int]:
    """Checkpoints nobody needs: not the newest, not the one a cleaned log begins with, and one
    in so many commits is kept for whoever travels back."""
    older = log_files.checkpoints[:-KEPT]
    blocks: dict[int, int] = {}
    for version in (v for v in older if v >= TRAVEL_COMMITS):
        blocks.setdefault(version // TRAVEL_COMMITS, version)
    kept = {log_files.start, *blocks.values()}
    return [version for version in older if version not in kept]
