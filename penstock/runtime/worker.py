"""A worker: one thread that keeps one stream running, with back-off, until it is told to stop.

Whatever fails, fails alone. A transform that cannot go on parks its own table; everything else is
tried again, at first after a second, at most every minute.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.errors import ForeignCommit, LeaseLost, TransformError
from penstock.runtime.follow import Follower

__all__ = ["FollowWorker", "Worker"]

log = logging.getLogger("penstock.worker")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_IDLE = 1.0  # a follower looks by itself this often, should a wake-up be missed


class Worker(ABC):
    """Life cycle of one stream: starting, running, waiting (back-off), parked, stopped."""

    def __init__(self, name: str, on_lease_lost: Callable[[], None]) -> None:
        self.name = name
        self.state = "starting"
        self.error = ""
        self.failures = 0
        self.last_moved = time.monotonic()
        self._on_lease_lost = on_lease_lost
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something this stream reads has moved."""
        self._awake.set()

    def ask_to_stop(self) -> None:
        """Finish the batch in hand, commit it, leave; does not wait for it."""
        self._stopping.set()
        self._awake.set()

    @property
    def ended(self) -> bool:
        """True once the thread is gone and cannot write any more."""
        return not self._thread.is_alive()

    def join(self, timeout: float = 30.0) -> None:
        self._thread.join(timeout)

    @abstractmethod
    def _run(self) -> None:
        """Work until stopping; raising means back-off and a fresh start."""

    @abstractmethod
    def details(self) -> dict[str, Any]: ...

    def status(self) -> dict[str, Any]:
        idle = round(time.monotonic() - self.last_moved, 1)
        try:
            details = self.details()
        except Exception as error:  # a status must never take a stream down
            details = {"status_error": str(error)}
        return {
            "stream": self.name,
            "state": self.state,
            "idle_seconds": idle,
            "failures": self.failures,
            "error": self.error,
            **details,
        }

    def _moved(self) -> None:
        self.last_moved = time.monotonic()
        self.failures = 0
        self.error = ""

    def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                self.state = "starting"
                self._run()
            except LeaseLost as error:
                self._note("stopped", error)
                self._on_lease_lost()
                return
            except (TransformError, ForeignCommit) as error:
                self._note("parked", error)
                return
            except Exception as error:
                if self._stopping.is_set():
                    break
                self.failures += 1
                self._note("waiting", error)
                doublings = min(self.failures - 1, 10)  # years of failures must not overflow
                self._stopping.wait(min(_LONGEST_WAIT, _FIRST_WAIT * 2**doublings))
        self.state = "stopped"

    def _note(self, state: str, error: Exception) -> None:
        self.state = state
        self.error = str(error).splitlines()[0][:500] if str(error) else type(error).__name__
        log.warning("%s is %s: %s", self.name, state, self.error, exc_info=error)


class FollowWorker(Worker):
    """Runs one follower, and wakes those who read its table."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Follower],
        on_lease_lost: Callable[[], None],
        on_commit: Callable[[], None],
    ) -> None:
        super().__init__(name, on_lease_lost)
        self._make = make
        self._on_commit = on_commit
        self._follower: Follower | None = None

    def _run(self) -> None:
        self._follower = self._make()
        self.state = "running"
        while not self._stopping.is_set():
            if self._follower.advance():
                self._moved()
                self._on_commit()
            self._awake.wait(_IDLE)
            self._awake.clear()

    def details(self) -> dict[str, Any]:
        return self._follower.status() if self._follower is not None else {}
