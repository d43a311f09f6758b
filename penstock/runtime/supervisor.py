"""The supervisor: one process, one Spark session, all streams.

It registers what the tree declares, waits for the lease, and then, once a second: renews the
lease, compares what should run with what does, and leaves a sign of life. A second one started
beside it is a standby, warm, and takes over when the lease runs out. While the registry database
is away the streams go on: nobody else can take the lease either, and the token in every log keeps
out whoever should not write.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from penstock.errors import NotRunning, PenstockError, ServiceFailed
from penstock.runtime.analysis import Analysed
from penstock.runtime.ends import finish_swaps
from penstock.runtime.register import register
from penstock.runtime.registry import Registry
from penstock.runtime.slots import SlotWatch
from penstock.runtime.staging import Staging
from penstock.runtime.streams import Streams
from penstock.runtime.subjects import ensure_subjects
from penstock.runtime.sweep import Sweep
from penstock.runtime.upkeep import Upkeep
from penstock.session import build_session
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Supervisor"]

log = logging.getLogger("penstock.supervisor")

LEASE = "streams"
LEASE_SECONDS = 10.0
BEAT_SECONDS = 1.0


class Supervisor:
    """Runs until told to stop; ``run`` is the whole life."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.registry = Registry(settings)
        self.staging = Staging(self.registry)
        self._stopping = threading.Event()
        self._lost = threading.Event()
        self._streams: Streams | None = None
        self._slots: SlotWatch | None = None

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self.settings.bucket is not None:
            self.settings.bucket.require_creating()
        self.registry.create()
        with self._pulse("starting"):
            session = build_session(self.settings, "penstock-supervisor", ui=False)
            found = register(session, self.settings, self.registry)
        self._hold_subjects(found)
        for broken in found.broken:
            log.error("disabled: %s: %s", broken.what, broken.reason)
        while not self._stopping.is_set():
            token = self._await_lease()
            if token is not None:
                self._lead(session, token)
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

    def _await_lease(self) -> int | None:
        """The token once the lease is ours; None when told to stop meanwhile."""
        while not self._stopping.is_set():
            try:
                token = self.registry.acquire(LEASE, self.holder, LEASE_SECONDS)
                if token is not None:
                    log.info("holding the lease with token %d", token)
                    return token
                self._beat("standby")
            except NotRunning as error:
                log.warning("%s", error)
            self._stopping.wait(BEAT_SECONDS)
        return None

    def _lead(self, session: SparkSession, token: int) -> None:
        self._lost.clear()
        self._finish_swaps()
        shutil.rmtree(self.settings.run / "checkpoints", ignore_errors=True)  # all are disposable
        streams = self._streams = Streams(session, self.settings, token, self._lost.set)
        upkeep = Upkeep(streams.logs, [Sweep(self.settings, streams.world)])
        upkeep.start()
        slots = self._slots = SlotWatch(self.settings)
        slots.start()
        try:
            while not self._stopping.is_set() and not self._lost.is_set():
                self._require_spark(session)
                self._round(streams, token)
                self._stopping.wait(BEAT_SECONDS)
        finally:
            log.info("stopping streams")
            upkeep.stop()
            slots.stop()
            streams.stop()
            self._streams = None
            self._leave(token)

    def _finish_swaps(self) -> None:
        """Before anything is written: what live logs show is what is live."""
        while not self._stopping.is_set():
            try:
                for table in finish_swaps(self.settings, self.registry):
                    log.warning("%s was swapped before a crash: noted now", table)
                return
            except NotRunning as error:
                log.warning("%s", error)
                self._stopping.wait(BEAT_SECONDS)

    def _round(self, streams: Streams, token: int) -> None:
        try:
            if not self.registry.renew(LEASE, self.holder, token, LEASE_SECONDS):
                log.warning("the lease is somebody else's now")
                self._lost.set()
                return
            streams.converge(
                self.registry.revisions(),
                self.registry.wishes(),
                self.staging.candidates(),
                self.staging.holds(),
            )
            for table, reason in streams.breaches().items():
                self.staging.hold(table, reason, "a guard")
            streams.hand_out(self.registry.tasks())
            self._tell_answers(streams)
            self._beat("running")
        except PenstockError as error:
            log.warning("%s", error)
        except Exception:
            log.exception("a round failed; the next one tries again")

    def _tell_answers(self, streams: Streams) -> None:
        found = streams.answers()
        while found:
            task, result, failed = found[0]
            try:
                self.registry.finish(task, result, failed=failed)
            except BaseException:
                for answer in found:  # what was done must not be done again
                    streams.keep(answer)
                raise
            found.pop(0)

    def _require_spark(self, session: SparkSession) -> None:
        """Without its JVM this process can do nothing: leave, so that a standby takes over."""
        context = session.sparkContext
        dead = context._gateway is None or context._gateway.proc.poll() is not None
        if dead or context._jsc.sc().isStopped():
            raise ServiceFailed(
                "Spark's JVM is gone.", remedy="Look at logs/supervisor.log, then `penstock up`."
            )

    def _leave(self, token: int) -> None:
        try:
            self.registry.give_up(LEASE, self.holder, token)
            self._beat("stopped" if self._stopping.is_set() else "standby")
        except PenstockError as error:
            log.warning("%s", error)

    def _beat(self, state: str) -> None:
        status = self._streams.status() if self._streams is not None else []
        if self._slots is not None:
            status = self._slots.marked(status)
        self.registry.beat(self.holder, state, os.getpid(), status)
