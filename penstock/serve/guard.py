"""Caps on time and memory that hold even when the engine does not look at its watch.

How it works: one thread watches while the query works. Past a cap it interrupts the engine, again
and again, because an interrupt between two steps is forgotten. DuckDB checks for interrupts
between chunks of rows only: folding ``list_sum(range(3000000000))`` or ordering 200 joins neither
stops nor counts against its memory limit. Where the process is ours to end (the CLI),
``last_resort`` ends it after a grace period; elsewhere the caller waits.

Only work counts: time in which the reader of the rows is slow (a pager) does not.

What it does not do: measure memory where there is no ``/proc`` (macOS); DuckDB's own limit and the
time cap still hold there.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from penstock.errors import QueryRefused

__all__ = ["Guard", "LastResort"]

LastResort = Callable[[QueryRefused], None]

_STEP_S = 0.05
_GRACE_S = 2.0  # to stop after the time cap
_MEMORY_GRACE_S = 0.5  # to stop after the memory cap: it fills a gigabyte a second
_SLACK = 512 * 1024**2  # what Python, parquet buffers and allocators take beside the limit
_STATM = Path("/proc/self/statm")
_PAGE = 4096


class Guard:
    """Watches one query: ``with Guard(...) as guard: with guard.working(): ...``."""

    def __init__(
        self,
        interrupt: Callable[[], None],
        *,
        timeout_s: float,
        memory_bytes: int,
        spent_s: float = 0.0,
        last_resort: LastResort | None = None,
    ) -> None:
        self._interrupt = interrupt
        self._timeout_s = timeout_s
        self._memory_cap = _resident() + memory_bytes + _SLACK
        self._last_resort = last_resort
        self._used_s = spent_s  # work done before the watch began
        self._since: float | None = None
        self._broken: QueryRefused | None = None
        self._give_up_at = 0.0
        self._cancelled = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="query-guard", daemon=True)

    def __enter__(self) -> Guard:
        self._hear_ctrl_c()
        self._thread.start()
        return self

    def _hear_ctrl_c(self) -> None:
        """Have signals written to a pipe too: the engine may not return to Python to see them."""
        self._ears: tuple[int, int] | None = None
        if threading.current_thread() is threading.main_thread():
            self._ears = os.pipe()
            for end in self._ears:
                os.set_blocking(end, False)
            self._deafened = signal.set_wakeup_fd(self._ears[1], warn_on_full_buffer=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join()
        if self._ears is not None:
            signal.set_wakeup_fd(self._deafened)
            for end in self._ears:
                os.close(end)

    @property
    def used_s(self) -> float:
        """Seconds of work so far."""
        since = self._since  # the other thread may clear it between two looks
        return self._used_s + (time.monotonic() - since if since else 0.0)

    @property
    def broken(self) -> QueryRefused | None:
        """Which cap was passed, if one was."""
        return self._broken

    @property
    def cancelled(self) -> bool:
        """True after Ctrl-C."""
        return self._cancelled

    @contextmanager
    def working(self) -> Iterator[None]:
        """Time inside counts against the cap.

        Raises:
            QueryRefused: a cap was passed, even where the engine finished all the same.
        """
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._used_s, self._since = self.used_s, None
        if self._broken:
            raise self._broken

    def _watch(self) -> None:
        while not self._closed.wait(_STEP_S):
            if self._since is None:
                continue
            self._listen()
            self._broken = self._broken or self._passed()
            if self._broken:
                self._stop(self._broken)

    def _listen(self) -> None:
        """On Ctrl-C interrupt the engine until it stops; end the process if it never does."""
        if self._ears is not None and not self._cancelled:
            with suppress(BlockingIOError):
                self._cancelled = signal.SIGINT in os.read(self._ears[0], 64)
                self._give_up_at = time.monotonic() + _GRACE_S
        if self._cancelled:
            self._interrupt()
            if self._last_resort is not None and time.monotonic() > self._give_up_at:
                os._exit(130)

    def _passed(self) -> QueryRefused | None:
        now = time.monotonic()
        if self.used_s > self._timeout_s:
            self._give_up_at = now + _GRACE_S
            return QueryRefused(
                f"the query ran past its time cap of {self._timeout_s:g} s and was stopped.",
                remedy="Read less (filter on time, add LIMIT), or raise it with --timeout.",
            )
        if _resident() > self._memory_cap:
            self._give_up_at = now + _MEMORY_GRACE_S
            return QueryRefused(
                "the query took more memory than its cap and was stopped.",
                remedy="Aggregate or filter earlier, or raise it with --memory.",
            )
        return None

    def _stop(self, broken: QueryRefused) -> None:
        self._interrupt()
        if self._last_resort is not None and time.monotonic() > self._give_up_at:
            self._last_resort(broken)


def _resident() -> int:
    """Bytes this process has in memory; 0 where that cannot be known."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
