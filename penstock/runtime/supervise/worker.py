"""A worker: one thread that keeps one stream running, with back-off, until it is told to stop.

Whatever fails, fails alone. A transform that cannot go on parks its own table; everything else is
tried again, at first after a second, at most every minute.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import duckdb

from penstock.errors import (
    ForeignCommit,
    LeaseLost,
    TransformError,
    UsageError,
    in_a_line,
)
from penstock.runtime.delta.source import Batch
from penstock.runtime.kinds.follow import Follower, TableContext
from penstock.runtime.mend.replay import expire
from penstock.runtime.supervise.turns import Turns, longest_wait

__all__ = ["FollowWorker", "Order", "Worker"]

log = logging.getLogger("penstock.worker")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_TIDY = 3600.0  # seconds between two looks for what has outlived its retention
_LONGEST_REST = 30.0
_NOT_BEGUN = "it stopped before this was begun"
_IDLE = 1.0  # a follower looks by itself this often, should a wake-up be missed


@dataclass(frozen=True)
class Order:
    """Something to be done by the one thread that writes a table."""

    run: Callable[[Follower], dict[str, Any]]
    done: Callable[[dict[str, Any]], None]
    failed: Callable[[str], None]


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
    def stopping(self) -> bool:
        """True once it was asked to stop: what it is given now may never be begun."""
        return self._stopping.is_set()

    @property
    def ended(self) -> bool:
        """True once the thread is gone and cannot write any more."""
        return not self._thread.is_alive()

    @property
    def way_out(self) -> str:
        """What to type where its help is asked for and it fails for ever: it can do without."""
        return (
            "If it is to be replaced or taken back: "
            f"`penstock streams stop {self.name}`, then type this again."
        )

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
        try:
            self._keep_running()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The last thing its thread does."""
        return

    def _keep_running(self) -> None:
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
        self.error = in_a_line(error)
        log.warning("%s is %s: %s", self.name, state, self.error, exc_info=error)


class FollowWorker(Worker):
    """Runs one follower, carries out what is asked of it, and wakes those who read its table.

    Args:
        every: within what time new rows should be in; None: when it is asked for. They wait for
            most of it, counted from when they came in below: waits along a chain of tables do not
            add up. A table that has taken nothing in for as long goes as soon as its input commits.
        turns: taken with the others that may wait.

    ``share`` is how much of the time it may work while it has a long way to go; 0: it stands.
    """

    share = 1.0

    def __init__(
        self,
        name: str,
        make: Callable[[], Follower],
        on_lease_lost: Callable[[], None],
        on_commit: Callable[[], None],
        *,
        every: dt.timedelta | None = dt.timedelta(0),
        turns: Turns | None = None,
    ) -> None:
        super().__init__(name, on_lease_lost)
        self._turns = turns
        self._make = make
        self._on_commit = on_commit
        self.every = every
        self._follower: Follower | None = None
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._door = threading.Lock()  # so that nothing is left in the queue of one that is gone
        self._gone = False
        self._began = 0.0  # the batch in hand
        self._looked = self._took = -math.inf  # when rounds began: the last, the last that found
        self._rounds, self._busy = 0, 0.0  # those that took something in, and their seconds
        self._broke_off = False
        self._my_turn = threading.Event()
        self._asked = threading.Event()  # for something, while it rests
        self._obeying = False

    def order(self, order: Order) -> None:
        """Have something done between two batches.

        It waits for no turn meanwhile: others may be standing still for it. One that has ended, or
        ends before it comes to it, says so by ``failed``.
        """
        with self._door:
            gone = self._gone
            if not gone:
                self._orders.put(order)
        if gone:
            order.failed(_NOT_BEGUN)
            return
        self._my_turn.set()
        self._asked.set()
        self.wake()

    def _leave(self) -> None:
        with self._door:
            self._gone = True
        while not self._orders.empty():
            self._orders.get().failed(_NOT_BEGUN)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._my_turn.set()
        self._asked.set()

    def _run(self) -> None:
        follower = self._follower = self._make()
        follower.go_on, follower.stopping = self._go_on, self._stopping.is_set
        self.state = "running"
        tidy = time.monotonic() + _TIDY
        self._looked = -math.inf  # whatever came before us, at once
        try:
            while not self._stopping.is_set():
                self._obey(follower)
                now = time.monotonic()
                if now >= tidy:
                    tidy = now + _TIDY
                    expire(follower, dt.datetime.now(dt.UTC))
                if self.every is not None and now >= self._next_look(follower, self.every):
                    self._looked = now
                    if self._advance(follower):
                        self._took = now
                if self._broke_off:  # there is more, and no reason to wait for it
                    self._broke_off, self._looked = False, -math.inf
                    continue
                self._awake.wait(self._rest(follower))
                self._awake.clear()
        except duckdb.Error:
            follower.forget_copies()  # a damaged copy would fail for ever
            raise
        finally:
            follower.close()

    def _go_on(self, batch: Batch) -> bool:
        """Between two batches of a long way: rest as told, and see whether anything is asked.

        What is asked waits for no rest, neither while it is in the queue nor while it is in hand.
        """
        spent, share = time.monotonic() - self._began, self.share
        if share < 1.0 and not self._obeying:
            self._pause(min(_LONGEST_REST, spent / share - spent) if share else _IDLE)
        self._began = time.monotonic()
        self._broke_off = self._stopping.is_set() or not self._orders.empty() or self.share == 0
        return not self._broke_off

    def _pause(self, seconds: float) -> None:
        """Rest until something is asked."""
        self._asked.clear()
        if self._orders.empty() and not self._stopping.is_set():
            self._asked.wait(seconds)

    def _next_look(self, follower: Follower, every: dt.timedelta) -> float:
        """When to look: as the oldest row that waits has it; now and then even if none is known."""
        by_itself = self._looked + max(_IDLE, every.total_seconds())
        born = follower.waiting_since()
        if born is None or self._looked == -math.inf:
            return by_itself
        wait = longest_wait(every).total_seconds()
        due = born + wait
        if time.monotonic() > born + every.total_seconds():
            due = self._took + wait / 4  # late already: a round for every few rows makes it worse
        return min(by_itself, self._took + wait, due)

    def _rest(self, follower: Follower) -> float:
        """How long to sleep if nobody wakes it."""
        if self.every is None:
            return _IDLE
        return max(0.0, self._next_look(follower, self.every) - time.monotonic())

    def _turn(self, follower: Follower) -> AbstractContextManager[None]:
        if self._turns is None or not self.every:
            return nullcontext()
        born = follower.waiting_since()
        since = time.monotonic() if born is None else born
        mine = self._my_turn = threading.Event()
        if self._stopping.is_set() or not self._orders.empty():  # asked before there was a turn
            mine.set()
        return self._turns.one(since + self.every.total_seconds(), mine)

    def _advance(self, follower: Follower) -> bool:
        """Take in what is new; was there anything?"""
        if self.share == 0:
            self._pause(_IDLE)
            return False
        self._began = time.monotonic()
        with self._turn(follower):
            begun = time.monotonic()
            moved = not self._stopping.is_set() and follower.advance()
        if moved:
            self._rounds += 1
            self._busy += time.monotonic() - begun
            self._moved()
            self._on_commit()
        return moved

    def _obey(self, follower: Follower) -> None:
        while not self._orders.empty():
            order = self._orders.get()
            self._began, self._obeying = time.monotonic(), True
            try:
                follower.advance()
                order.done(order.run(follower))
            except UsageError as error:  # asked for what cannot be: nothing was begun
                order.failed(str(error))
            except Exception as error:
                order.failed(in_a_line(error))
                raise  # the follower may be half way through something: it is made anew
            finally:
                self._obeying = False
            self._moved()
            self._on_commit()

    @property
    def breach(self) -> str:
        """Which guard holds live, in words; empty when none does."""
        return self._follower.breach if self._follower is not None else ""

    @property
    def context(self) -> TableContext | None:
        """What its follower runs with; None while it is not running."""
        return self._follower.context if self._follower is not None else None

    def details(self) -> dict[str, Any]:
        told = self._follower.status() if self._follower is not None else {}
        return {**told, "rounds": self._rounds, "busy_seconds": round(self._busy, 3)}
