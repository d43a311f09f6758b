"""The publisher: one process and one thread keep every publication up with its live table.

Once in a while it looks for the next commit of each table, which is one look at the disk, and does
what there is to do, each publication a piece at a time. One that fails says why and is tried again,
later each time; the others go on. Whoever publishes is alone: a lock on this machine, the
transactional id everywhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
from confluent_kafka import KafkaException

from penstock.alone import alone
from penstock.errors import PenstockError, PositionLost, ProducerUnusable, ServiceFailed, in_a_line
from penstock.publish.declared import NOTIFICATION, Published, declared
from penstock.publish.outlet import Outlet
from penstock.publish.state import Told
from penstock.publish.work import TopicWork
from penstock.runtime.upkeep.claims import Claims
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.publish.send import Sender

__all__ = ["Publisher", "go_on_wish", "publishing_alone"]

log = logging.getLogger("penstock.publish")

POLL = 0.5  # seconds between two looks when there was nothing to do
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_TELL_EVERY, _CLAIM_EVERY = 1.0, 10.0
_READER = "publisher"


class Work(Protocol):
    """Something that is published, piece by piece."""

    published: Published

    @property
    def reached(self) -> int | None:
        """The version that is published."""

    @property
    def claimed(self) -> int | None:
        """The version a successor would go on from; None: not known, or there is none."""

    @property
    def unbegun(self) -> bool:
        """It is known to have no position yet, so that nothing is kept for it."""

    @property
    def lost(self) -> bool:
        """It cannot go on from its position whatever is kept for it: somebody has to say how."""

    def newest(self) -> int | None:
        """The version there is."""

    def step(self) -> bool:
        """Do the next piece; False: nothing to do."""

    def told(self) -> dict[str, Any]:
        """What else there is to say of it."""

    def go_on_from_now(self) -> None:
        """Leave out what cannot be told any more."""


class _Kept:
    """One publication and how it goes: starting, running, waiting."""

    def __init__(self, published: Published, make: Callable[[], Work]) -> None:
        self.published = published
        self._make = make
        self.work: Work | None = None
        self.state, self.error, self.failures, self.retry_at = "starting", "", 0, 0.0

    def attempt(self, wish: Path) -> bool:
        """One piece, if it is time; True: there may be more."""
        wished = self.state == "parked" and wish.exists()
        if time.monotonic() < self.retry_at and not wished:
            return False
        try:
            if self.work is None:
                self.work = self._make()
            if wished:
                log.warning("%s goes on from now, as told", self.published.id)
                self.work.go_on_from_now()
            moved = self.work.step()
        except ProducerUnusable:
            raise
        except (PenstockError, KafkaException, duckdb.Error, OSError) as error:
            self._fail(error, in_a_line(error))
            return False
        except Exception as error:  # nobody foresaw it, and still it is this publication's alone
            log.exception("%s failed", self.published.id)
            self._fail(error, f"{type(error).__name__}: {in_a_line(error)}")
            return False
        self.state, self.error, self.failures, self.retry_at = "running", "", 0, 0.0
        wish.unlink(missing_ok=True)  # heeded, or not needed: it must not wait for another time
        return moved

    def _fail(self, error: Exception, told: str) -> None:
        self.failures += 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.failures - 1, 10))
        self.retry_at = time.monotonic() + wait
        lost = isinstance(error, PositionLost)
        self.state, self.error = "parked" if lost else "waiting", told
        log.warning("%s is %s: %s", self.published.id, self.state, self.error)

    def told(self) -> dict[str, Any]:
        work, newest = self.work, None
        reached = work.reached if work is not None else None
        if work is not None:
            newest = work.newest()
            newest = reached if newest is None else max(newest, -1 if reached is None else reached)
        behind = None if newest is None else newest - (-1 if reached is None else reached)
        return {
            "kind": self.published.kind,
            "table": self.published.table,
            "target": self.published.target,
            "state": self.state,
            "version": reached,
            "live_version": newest,
            "behind": behind,
            "failures": self.failures,
            "error": self.error,
            **(work.told() if work is not None else {}),
        }


class Publisher:
    """Everything that is declared, kept published until told to stop."""

    def __init__(self, settings: Settings, outlet: Outlet | None = None) -> None:
        self._settings = settings
        self._outlet = outlet or Outlet(settings)
        self._folder = settings.home / "publish"
        self._kept: dict[Published, _Kept] = {}
        self._manifest_mark: tuple[int, int] | None = None
        self._told_at = self._claimed_at = float("-inf")
        self._claimed: set[str] = set()
        self._sender: Sender | None = None
        self._troubles: dict[str, str] = {}  # by what failed beside the publications

    def run(self, stopping: threading.Event) -> None:
        """Publish until told to stop.

        Raises:
            ProducerUnusable: somebody else publishes now.
        """
        letters = threading.Thread(target=self._send_letters, args=[stopping], name="letters")
        letters.start()
        try:
            while not stopping.is_set():
                if not self.round():
                    stopping.wait(POLL)
        finally:
            stopping.set()
            letters.join()
        self._guarded("the state", lambda: self._tell(force=True))
        self._outlet.close()

    def _send_letters(self, stopping: threading.Event) -> None:
        """Beside the topics, which must not wait for somebody's mail server."""
        while not stopping.is_set():
            if not self._notifies:
                stopping.wait(POLL)
                continue
            from penstock.publish.send import Sender

            self._sender = Sender(self._settings)
            self._sender.run(stopping)

    @property
    def _notifies(self) -> bool:
        return any(item.kind == NOTIFICATION for item in list(self._kept))

    def once(self) -> list[dict[str, Any]]:
        """Publish what there is now, and tell how it went.

        Raises:
            ServiceFailed: something beside the publications went wrong.
        """
        while self.round():
            pass
        if self._notifies:
            from penstock.publish.send import Sender

            Sender(self._settings).once()
        self._tell(force=True)
        self._outlet.close()
        if self._troubles:
            raise ServiceFailed(self._error(), remedy="Mend that, then: `penstock publish`.")
        return [kept.told() for kept in self._kept.values()]

    def round(self) -> bool:
        """One piece of each publication; True: something moved.

        What is done beside them waits for the next time if it fails: it must not end them all.
        """
        self._guarded("what is declared", self._look_at_declarations)
        moved = [
            kept.attempt(go_on_wish(self._settings, item.target))
            for item, kept in self._kept.items()
        ]
        self._guarded("the claims", self._claim)
        self._guarded("the state", self._tell)
        return any(moved)

    def _guarded(self, what: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            told = f"{what}: {type(error).__name__}: {in_a_line(error)}"
            if self._troubles.get(what) != told:
                log.exception("%s", told)
            self._troubles[what] = told
        else:
            self._troubles.pop(what, None)

    def _error(self) -> str:
        """What no publication can be blamed for."""
        waiting = self._sender.error if self._sender is not None else ""
        letters = [f"no letters are sent: {waiting}"] if waiting else []
        return "; ".join([*self._troubles.values(), *letters])

    # --- what is declared -------------------------------------------------------------------
    def _look_at_declarations(self) -> None:
        """Take in a manifest that was written anew; what did not change goes on."""
        try:
            found = self._settings.manifest.stat()
        except FileNotFoundError:
            return
        mark = (found.st_ino, found.st_mtime_ns)
        if mark == self._manifest_mark:
            return
        wanted = declared(self._settings)
        self._kept = {
            item: self._kept.get(item) or _Kept(item, self._maker(item)) for item in wanted
        }
        self._manifest_mark = mark
        gone = self._claimed - {item.table for item in wanted}
        for table in gone:
            Claims(self._settings.home).let_go(_READER, table)
        self._claimed -= gone

    def _maker(self, item: Published) -> Callable[[], Work]:
        scratch = self._folder / "scratch" / item.id.replace(":", "-")
        if item.kind == NOTIFICATION:
            from penstock.publish.notify import NotifyWork

            return lambda: NotifyWork(self._settings, item, scratch)
        return lambda: TopicWork(self._settings, item, self._outlet, scratch)

    # --- what others see --------------------------------------------------------------------
    def _claim(self) -> None:
        """Let maintenance keep the commits that are still needed."""
        if time.monotonic() - self._claimed_at < _CLAIM_EVERY:
            return
        needed, unsure, lost = self._needs()
        claims = Claims(self._settings.home)
        held = {c.table: c.version for c in claims.all() if c.who == _READER and not c.is_over}
        for table, version in needed.items():
            # One that cannot answer now may need what an earlier claim keeps: it is not moved on.
            if table not in unsure or version < held.get(table, version + 1):
                claims.hold(_READER, table, version)
        self._claimed |= needed.keys()
        for table in lost - needed.keys() - unsure:
            claims.let_go(_READER, table)
            self._claimed.discard(table)
        self._claimed_at = time.monotonic()  # not before: what failed is still a trouble

    def _needs(self) -> tuple[dict[str, int], set[str], set[str]]:
        """By table the oldest version needed; tables of which somebody cannot say now what they
        need; tables of which somebody needs nothing any more."""
        needed: dict[str, int] = {}
        unsure: set[str] = set()
        lost: set[str] = set()
        for kept in self._kept.values():
            table, work = kept.published.table, kept.work
            if work is not None and work.lost:
                lost.add(table)
                continue
            version = work.claimed if work is not None else None
            if version is not None:
                needed[table] = min(version, needed.get(table, version))
            elif work is None or not work.unbegun:
                unsure.add(table)
        return needed, unsure, lost

    def _tell(self, *, force: bool = False) -> None:
        if not force and time.monotonic() - self._told_at < _TELL_EVERY:
            return
        told = [kept.told() for kept in self._kept.values()]
        Told(os.getpid(), time.time(), self._error(), told).write(self._settings)
        self._told_at = time.monotonic()


def go_on_wish(settings: Settings, target: str) -> Path:
    """The file that says: go on from now."""
    return settings.home / "publish" / f"go-on-{target}"


@contextmanager
def publishing_alone(settings: Settings, patience: float = 0.0) -> Iterator[None]:
    """Be the only one who publishes from this home.

    Raises:
        EnvironmentProblem: somebody is at it.
    """
    folder = settings.home / "publish"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(
        folder / ".lock",
        patience=patience,
        report=lambda text: log.info("%s", text),
        waiting="waiting for another publisher (pid {pid})",
        refused="the publisher (pid {pid}) is at work already.",
        remedy="It publishes what there is by itself: see `penstock publish`.",
    ):
        yield
