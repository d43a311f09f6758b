"""What runs, as operations on it need it: revisions, their workers and their writers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, UsageError
from penstock.model.names import TableName
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.registry import Revision
from penstock.runtime.supervise.worker import FollowWorker

if TYPE_CHECKING:
    from penstock.runtime.supervise.streams import Streams

__all__ = ["RunningWorld"]

_STARTING = 180.0  # seconds a worker may take to start: a big store is filled from its input
_STOPPING = 120.0
_LEAVING = 5.0


class RunningWorld:
    """The streams of one supervisor, seen by whoever swaps, repairs or drops (operate.World)."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.settings = streams.settings

    def token_of(self, table: str) -> int:
        return self._streams.token_of(table)

    def answers_for(self, table: str) -> bool:
        """Whether a table is this supervisor's to clean up."""
        return not self._streams.closed and self._streams.shares.answers_for(table)

    def revision(self, table: str, revision: str) -> Revision:
        try:
            return self._streams.writers.revisions[table, revision]
        except KeyError:
            raise UsageError(
                f"{table} has no revision {revision} that is fed.",
                remedy="See `penstock releases`.",
            ) from None

    def worker(self, table: str, revision: str) -> FollowWorker:
        """The worker of a revision; one that is starting, or tries again, is waited for."""
        own, deadline = f"{table}@{revision}", time.monotonic() + _STARTING
        while True:
            worker = self._streams.workers.get(own)
            if isinstance(worker, FollowWorker) and worker.state == "running":
                return worker
            begins = worker is None or worker.state in {"starting", "waiting"}
            if not begins or time.monotonic() > deadline:
                state = "not running" if worker is None else f"{worker.state}: {worker.error}"
                raise UsageError(f"{own} is {state}.", remedy="See `penstock streams`.")
            time.sleep(0.2)

    def running(self, table: str, revision: str) -> FollowWorker | None:
        """The worker of a revision if it runs."""
        worker = self._streams.workers.get(f"{table}@{revision}")
        runs = isinstance(worker, FollowWorker) and worker.state == "running"
        return worker if runs and isinstance(worker, FollowWorker) else None

    def parked(self, table: str, revision: str) -> bool:
        """Whether the worker of a revision gave up and is gone: it writes nothing more."""
        worker = self._streams.workers.get(f"{table}@{revision}")
        if worker is None or worker.state != "parked":
            return False
        worker.join(_LEAVING)
        return worker.ended

    def writer(
        self, table: str, revision: str, part: str
    ) -> tuple[RevisionWriter, tuple[str, ...]]:
        """The writer of a revision or of what lies beside it, and the keys of its rows.

        Opened without a look at the live log, if it has to be: that may be damaged.
        """
        known = self.revision(table, revision)
        if part != "table":
            return self._streams.writers.unshown(known, part), ()
        keys = self._streams.catalog(known.bundle).tables[TableName.parse(table)].keys
        return self._streams.writers.unshown(known), keys

    def bronze(self, name: TableName) -> BronzeWriter:
        """The writer of a topic's table; only while the topic is being read."""
        writer = self._streams.writers.bronze(name)
        if not writer.topic_id:
            raise UsageError(f"{name} is not being read.", remedy="See `penstock streams`.")
        return writer

    def wake(self, stream: str) -> None:
        """Tell those who read a stream or table that it has something new."""
        self._streams.wake(stream)

    def restart(self, table: str, revision: str) -> None:
        """Let a worker that is parked be made anew, and those who could not open what it writes.

        One that runs goes on: told to leave, it would not stay parked if it ever has to.
        """
        own = f"{table}@{revision}"
        for name in (own, *self._streams.readers(own)):
            worker = self._streams.workers.get(name)
            if worker is not None and worker.state == "parked":
                self._streams.leave(name)

    def forget(self, table: str, revision: str) -> None:
        """Wait until a revision that should not run any more does not; let go of its files."""
        own, deadline = f"{table}@{revision}", time.monotonic() + _STOPPING
        while own in self._streams.workers:
            if time.monotonic() > deadline:
                raise PenstockError(f"{own} does not stop.", remedy="See `penstock streams`.")
            time.sleep(0.2)
        name = TableName.parse(table)
        beside = (name, name.quarantine, name.late, name.outcomes)
        self._streams.writers.forget(beside, revision)
