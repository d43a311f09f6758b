"""Files of a job on their way to a table's writer: they stay for as long as it may take them over.

Who asked may have gone before there was an answer (a timeout, Ctrl-C, the database away), and the
writer finds the task hours later. Such files go when the next job begins, a day later.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.reprocess.release import Ask

__all__ = ["Scratch", "scratch"]

_KEPT_SECONDS = 24 * 3600.0


class Scratch:
    """One job's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.awaited = False  # somebody may still come for its files

    def handed_over(self, ask: Ask, table: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask the writer to take them over; only an answer makes them superfluous."""
        self.awaited = True
        try:
            told = ask(table, "backfill", arguments)
        except UsageError:  # refused
            self.awaited = False
            raise
        self.awaited = False
        return told


@contextmanager
def scratch(run: Path) -> Iterator[Scratch]:
    """A folder below ``run``, which goes afterwards unless its files are awaited."""
    place = run / "backfill"
    _forget(place)
    mine = Scratch(place / uuid.uuid4().hex)
    try:
        yield mine
    finally:
        if not mine.awaited:
            shutil.rmtree(mine.folder, ignore_errors=True)


def _forget(place: Path) -> None:
    """Remove what nobody came for."""
    for folder in place.glob("*"):
        if folder.stat().st_mtime < time.time() - _KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
