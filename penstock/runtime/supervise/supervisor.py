"""The supervisor: one process, one Spark session, all streams of its share of the tables.

It registers what the tree declares, waits for a slot, and then, once a second: renews the slot,
sees that it holds its share (shares.py), compares what should run with what does, and leaves a sign
of life. There is one slot unless the stack was started with more; one supervisor more than slots is
a standby, warm, and takes over when a slot runs out. While the registry database is away the
streams go on: nobody else can take a table either, and the token in every log keeps out whoever
should not write.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.errors import LeaseLost, NotRunning, PenstockError, ServiceFailed
from penstock.runtime.declared.analysis import Analysed
from penstock.runtime.declared.register import register
from penstock.runtime.delta.upkeep import Upkeep
from penstock.runtime.ingest.query import READERS
from penstock.runtime.ingest.slots import SlotWatch
from penstock.runtime.ingest.subjects import ensure_subjects
from penstock.runtime.registry import Registry, Revision
from penstock.runtime.staging import Hold, Staging
from penstock.runtime.supervise.ends import finish_swaps
from penstock.runtime.supervise.errands import Errands
from penstock.runtime.supervise.shares import Shares
from penstock.runtime.supervise.streams import Streams, checkpoints
from penstock.runtime.supervise.sweep import Sweep
from penstock.settings import Settings
from penstock.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Supervisor"]

log = logging.getLogger("penstock.supervisor")

BEAT_SECONDS = 1.0
# How long rounds may fail, one after the other, before this is taken for no life.
FAILING_FOR = 60.0


class Supervisor:
    """Runs until told to stop; ``run`` is the whole life."""

    def __init__(self, settings: Settings, name: str = "supervisor") -> None:
        self.settings = settings
        here = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.holder = f"{name}@{here}"
        self.registry = Registry(settings)
        self.shares = Shares(self.registry, self.holder, settings.supervisors)
        self.staging = Staging(self.registry)
        self._stopping = threading.Event()
        self._lost = threading.Event()
        self._failing_since: float | None = None
        self._streams: Streams | None = None
        self._slots: SlotWatch | None = None

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self.settings.bucket is not None:
            self.settings.bucket.require_creating()
        self.registry.create()
        with self._pulse("starting"):
            session = build_session(self.settings, "penstock-supervisor", waiting=2 * READERS)
            found = register(session, self.settings, self.registry)
        self._hold_subjects(found)
        for broken in found.broken:
            log.error("disabled: %s: %s", broken.what, broken.reason)
        while not self._stopping.is_set():
            if self._await_slot():
                self._lead(session)
        session.stop()

    def _hold_subjects(self, found: Analysed) -> None:
        """Schemas of our streams are registered and held to their compatibility from the start."""
        try:
            ensure_subjects(self.settings, found.catalog.streams.values())
        except PenstockError as error:  # what is live goes on reading what it knows
            log.error("%s", error)

    def stop(self) -> None:
        self._stopping.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        log.info("told to stop (signal %d)", number)
        self.stop()

    @contextmanager
    def _pulse(self, state: str) -> Iterator[None]:
        """Signs of life while the main thread is busy for long, on a connection of its own."""
        done = threading.Event()

        def live() -> None:
            registry = Registry(self.settings)
            while True:
                with suppress(PenstockError):
                    registry.beat(self.holder, state, os.getpid(), [])
                if done.wait(BEAT_SECONDS):
                    return registry.close()

        thread = threading.Thread(target=live, name="pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _await_slot(self) -> bool:
        """True once we have one; False when told to stop meanwhile."""
        while not self._stopping.is_set():
            try:
                if self.shares.enter():
                    log.info("working in slot %d", self.shares.slot)
                    return True
                self._beat("standby")
            except NotRunning as error:
                log.warning("%s", error)
            self._stopping.wait(BEAT_SECONDS)
        return False

    def _lead(self, session: SparkSession) -> None:
        self._lost.clear()
        shutil.rmtree(checkpoints(self.settings, self.shares.slot), ignore_errors=True)
        streams = self._streams = Streams(session, self.settings, self.shares, self._lost.set)
        upkeep = Upkeep(streams.logs, [Sweep(self.settings, streams.world)])
        upkeep.start()
        slots = self._slots = SlotWatch(self.settings, lambda: self.shares.answers_for(""))
        slots.start()
        try:
            while not self._stopping.is_set() and not self._lost.is_set():
                self._require_spark(session)
                self._round(streams)
                self._stopping.wait(BEAT_SECONDS)
        finally:
            log.info("stopping streams")
            upkeep.stop()
            slots.stop()
            streams.stop()
            self._tell_the_rest(streams.errands)
            self._streams = None
            self._leave()

    def _round(self, streams: Streams) -> None:
        """One look, and a sign of life also if it failed: all that runs would be unseen.

        Not if looks fail for long: nothing is started, stopped or answered then, and no sign of
        life is what everybody looks for.
        """
        try:
            if not self.shares.renew():
                log.warning("the slot, or a table, is somebody else's now")
                self._lost.set()
                return
            try:
                self._look(streams)
                self._failing_since = None
            except NotRunning:
                raise  # nobody there to be told of us
            except Exception as error:
                _noted(error)
                self._failing_since = self._failing_since or time.monotonic()
            if self._failing_since is None or time.monotonic() - self._failing_since < FAILING_FOR:
                self._beat("running")
        except Exception as error:
            _noted(error)

    def _look(self, streams: Streams) -> None:
        """Bring what runs to what should, and carry what was asked and what came of it."""
        streams.converge(
            self._settled(streams),
            self.registry.wishes(),
            self.staging.candidates(),
            self.staging.holds(),
        )
        for table, reason in streams.breaches().items():
            self.staging.hold(table, reason, Hold.GUARD)
        streams.errands.hand_out(self.registry.tasks(), self.registry.take)
        self._tell_answers(streams.errands)

    def _settled(self, streams: Streams) -> list[Revision]:
        """Give up what is not ours any more, take what is and is free; the revisions to run."""
        revisions = self.registry.revisions()
        wanted, held = self.shares.mine(revisions), set(self.shares.held)
        if streams.errands.busy:
            wanted |= held  # nothing leaves in the middle of an operation
        idle = {table for table in held - wanted if not streams.in_use(table)}
        if idle:
            for table in idle:
                streams.writers.let_go(table)
            self.shares.give_up(idle)
        if wanted - held and (taken := self.shares.take(wanted - held)):
            keep_on = self._keep_slot
            for table in finish_swaps(self.settings, self.registry, taken.keys(), keep_on):
                log.warning("%s was swapped before a crash: noted now", table)
            self.shares.keep(taken)
            revisions = self.registry.revisions()
        here = self.shares.whole(revisions, wanted)
        return [revision for revision in revisions if revision.table in here]

    def _keep_slot(self) -> None:
        """In the middle of a round that may outlast the slot."""
        if not self.shares.renew():
            raise LeaseLost(
                "the slot ran out while live logs were looked at.",
                remedy="Nothing was begun. Whoever has it now goes on: see `penstock streams`.",
            )

    def _tell_answers(self, errands: Errands) -> None:
        found = errands.answers()
        while found:
            try:
                self._tell(*found[0])
            except BaseException:
                for answer in found:  # what was done must not be done again
                    errands.keep(answer)
                raise
            found.pop(0)

    def _tell(self, task: int, result: dict[str, Any], failed: bool) -> None:
        try:
            self.registry.finish(task, result, failed=failed)
        except PenstockError:
            raise  # told later
        except Exception:  # refused as it is: it would be the next time, and hold up the others
            log.exception("the answer to task %d could not be kept", task)
            became = "it failed" if failed else "it was carried out"
            told = f"{became}, but its answer could not be kept: see logs/supervisor.log."
            self.registry.finish(task, {"error": told}, failed=True)

    def _tell_the_rest(self, errands: Errands) -> None:
        """What came of tasks while the streams stopped; not of those a successor may be at."""
        try:
            if self.shares.renew():
                self._tell_answers(errands)
        except PenstockError as error:
            log.warning("%s", error)

    def _require_spark(self, session: SparkSession) -> None:
        """Without its JVM this process can do nothing: leave, so that a standby takes over."""
        context = session.sparkContext
        dead = context._gateway is None or context._gateway.proc.poll() is not None
        if dead or context._jsc.sc().isStopped():
            raise ServiceFailed(
                "Spark's JVM is gone.", remedy="Look at logs/supervisor.log, then `penstock up`."
            )

    def _leave(self) -> None:
        try:
            self.shares.leave()
            self._beat("stopped" if self._stopping.is_set() else "standby")
        except PenstockError as error:
            log.warning("%s", error)

    def _beat(self, state: str) -> None:
        status = self._streams.status() if self._streams is not None else []
        if self._slots is not None:
            status = self._slots.marked(status)
        self.registry.beat(self.holder, state, os.getpid(), status)


def _noted(error: Exception) -> None:
    if isinstance(error, PenstockError):
        log.warning("%s", error)
    else:
        log.error("a round failed; the next one tries again", exc_info=error)
