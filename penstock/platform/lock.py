"""One command at a time starts or stops a stack."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import EnvironmentProblem
from penstock.platform.files import private_folder
from penstock.settings import Settings

__all__ = ["stack_lock"]

_PATIENCE = 300.0


@contextmanager
def stack_lock(settings: Settings, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the stack's lock; wait for whoever has it. The kernel drops it when we die."""
    path = private_folder(settings.run) / "stack.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(handle, report)
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, report: Callable[[str], None]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode() or "?"
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"another penstock command (pid {holder}) has been starting or stopping this "
                    f"stack for {_PATIENCE:.0f} s.",
                    remedy="Wait for it or end it, then try again.",
                ) from None
            report(f"waiting for another penstock command (pid {holder})")
            time.sleep(0.2)
