"""Where exports lie, and one export at a time to each target."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["export_folder", "one_at_a_time", "point", "synced"]


def export_folder(settings: Settings) -> Path:
    """Everything exported is below this folder; only its owner may enter it."""
    folder = settings.home / "export"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def one_at_a_time(
    folder: Path, target: str, patience: float, report: Callable[[str], None]
) -> Iterator[None]:
    """Hold a target's lock, waiting for whoever has it. The kernel drops it when we die.

    Raises:
        EnvironmentProblem: another export still holds it.
    """
    handle = os.open(folder / f".{target}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(handle, target, patience, report)
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, target: str, patience: float, report: Callable[[str], None]) -> None:
    deadline, told = time.monotonic() + patience, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode() or "?"
            if time.monotonic() >= deadline:
                raise EnvironmentProblem(
                    f"another export to {target} (pid {holder}) is at work.",
                    remedy="Wait for it, or give this one longer with --wait SECONDS.",
                ) from None
            if not told:
                report(f"waiting for another export to {target} (pid {holder})")
                told = True
            time.sleep(0.1)


def synced(path: Path) -> None:
    """Have a file or folder on disk before anything points at it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def point(link: Path, to: str) -> None:
    """Let a symbolic link point somewhere else: at once, never at nothing."""
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(to)
    fresh.replace(link)
    synced(link.parent)
