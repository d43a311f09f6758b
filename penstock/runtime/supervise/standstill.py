"""A stand: one stream stands still between two batches while somebody else decides."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from penstock.errors import PenstockError
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.supervise.worker import FollowWorker, Order

__all__ = ["Standstill"]

log = logging.getLogger("penstock.worker")

_LONGEST_CALL = 600.0  # seconds for one thing asked of a worker that stands
_LOOK = 0.2  # seconds between two looks whether one that is to stand has failed


class Standstill:
    """A follower that stands still between two batches while somebody else decides.

    The worker's own thread waits here and carries out what it is given, so that whatever belongs
    to that thread stays with it. It goes on when it is let go, or when nobody has asked anything
    of it for ``patience`` seconds: who forgot it must not stop a stream for ever.
    """

    def __init__(self, worker: FollowWorker, patience: float = 120.0) -> None:
        self.worker = worker
        self._patience = patience
        self._calls: queue.Queue[tuple[Callable[[Follower], Any], Future[Any]] | None]
        self._calls = queue.Queue()
        self._here: Future[None] = Future()
        self.lapsed = False
        worker.order(Order(self._stand, lambda result: None, self._never_came))

    def arrived(self, seconds: float) -> None:
        """Wait until it stands; not for one that failed meanwhile, as others may be standing."""
        deadline = time.monotonic() + seconds
        while not self._is_here():
            if self.worker.state == "waiting":
                self.let_go()
                raise self._failed(self.worker.error)
            if time.monotonic() > deadline:
                self.let_go()
                raise PenstockError(
                    f"{self.worker.name} did not come to a stand within {seconds:.0f} s.",
                    remedy="Look at `penstock streams`, then try again.",
                )

    def _is_here(self) -> bool:
        """Whether it stands; raises if it never will."""
        with suppress(TimeoutError):
            self._here.result(_LOOK)
            return True
        return False

    def call(self, what: Callable[[Follower], Any]) -> Any:
        """Have something done by the thread that stands, and wait for what it comes to."""
        self.require()
        answer: Future[Any] = Future()
        self._calls.put((what, answer))
        return answer.result(_LONGEST_CALL)

    def require(self) -> None:
        """Raise if it does not stand any more."""
        if self.lapsed:
            raise PenstockError(
                f"{self.worker.name} was left standing for too long and went on.",
                remedy="Try again; if it stays so, the difference is too big for this machine.",
            )

    def let_go(self) -> None:
        self._calls.put(None)

    def _never_came(self, error: str) -> None:
        if not self._here.done():
            self._here.set_exception(self._failed(error))

    def _failed(self, error: str) -> PenstockError:
        told = f"{self.worker.name} did not come to a stand: {error.rstrip('.')}."
        return PenstockError(told, remedy=self.worker.way_out)

    def _stand(self, follower: Follower) -> dict[str, Any]:
        self._here.set_result(None)
        while True:
            try:
                given = self._calls.get(timeout=self._patience)
            except queue.Empty:
                self.lapsed = True
                log.warning("%s was left standing: it goes on", self.worker.name)
                return {}
            if given is None:
                return {}
            what, answer = given
            try:
                answer.set_result(what(follower))
            except BaseException as error:
                self.lapsed = True
                answer.set_exception(error)
                raise  # half way through something: the follower is made anew
