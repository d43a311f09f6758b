"""One process builds a release: a lock that the kernel drops when its holder dies.

A task that is retried, a command typed twice, a build whose starter died: whoever comes second
finds the lock taken and waits. Nothing is written that a crash could leave behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from types import TracebackType
from typing import Any

from penstock.reprocess.history import Progress
from penstock.settings import Settings

__all__ = ["Building", "building", "progress_of"]


class Building:
    """The right to build one release. Take it, then use it as a context that gives it back."""

    def __init__(self, settings: Settings, release: str) -> None:
        folder = settings.run / "builds"
        folder.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(folder / f"{release}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def taken(self) -> bool:
        """Try to take it; False while another process has it."""
        with suppress(BlockingIOError):
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def __enter__(self) -> Building:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)


def building(settings: Settings, release: str) -> Building:
    """The right to build this release, not taken yet."""
    return Building(settings, release)


def progress_of(told: Mapping[str, Any]) -> Progress | None:
    """How far a build is, from what its builder left in the registry; None before that."""
    names = [field.name for field in fields(Progress)]
    known = all(name in told for name in names)
    return Progress(**{name: told[name] for name in names}) if known else None
