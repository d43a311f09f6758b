"""One process at a time: a lock file that the kernel gives back, also when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import EnvironmentProblem

__all__ = ["alone"]

_LOOK = 0.1


@contextmanager
def alone(
    lock: Path,
    *,
    patience: float,
    report: Callable[[str], None],
    waiting: str,
    refused: str,
    remedy: str,
) -> Iterator[None]:
    """Hold a lock, waiting for whoever has it.

    Args:
        waiting: what is told once while waiting; ``{pid}`` stands for the holder.
        refused: what is wrong when patience ends; the same.

    Raises:
        EnvironmentProblem: another process still holds it.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline, told = time.monotonic() + patience, False
        while not _taken(handle):
            holder = os.pread(handle, 32, 0).decode() or "?"
            if time.monotonic() >= deadline:
                raise EnvironmentProblem(refused.format(pid=holder), remedy=remedy)
            if not told:
                report(waiting.format(pid=holder))
                told = True
            time.sleep(_LOOK)
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
