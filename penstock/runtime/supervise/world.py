"""What runs, as operations on it need it: revisions, their workers and their writers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, UsageError
from penstock.model.names import TableName
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.registry import Revision
from penstock.runtime.supervise.worker import FollowWorker, Worker

if TYPE_CHECKING:
    from penstock.runtime.supervise.streams import Streams

__all__ = ["RunningWorld"]

_STARTING = 180.0  # seconds a worker may take to start: a big store is filled from its input
_STOPPING = 120.0
_LEAVING = 5.0
_BEGINNING = ("starting", "waiting")


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
        """The worker of a revision; one that is starting is waited for.

        So is one that failed, until it has tried once more: it may go on failing for ever.
        """
        own, began = f"{table}@{revision}", time.monotonic()
        failures = 0  # of one that waits for its next try, when that was seen first
        while True:
            worker, waited = self._streams.workers.get(own), time.monotonic() - began
            if isinstance(worker, FollowWorker) and worker.state == "running":
                return worker
            if self._is_off(own, worker, waited):
                raise _off(own)
            tried = False
            if worker is not None and worker.state == "waiting":
                failures = failures or worker.failures
                tried = worker.failures > failures
            begins = worker is None or worker.state in _BEGINNING
            if tried or not begins or waited > _STARTING:
                raise _not_running(own, worker)
            time.sleep(0.2)

    def _is_off(self, own: str, worker: Worker | None, waited: float) -> bool:
        """Whether one that is not to run is gone, or has ended and will be."""
        gone = waited > _LEAVING if worker is None else worker.state == "stopped"
        return gone and own in self._streams.idle

    def running(self, table: str, revision: str) -> FollowWorker | None:
        """The worker of a revision if it runs."""
        worker = self._streams.workers.get(f"{table}@{revision}")
        runs = isinstance(worker, FollowWorker) and worker.state == "running"
        return worker if runs and isinstance(worker, FollowWorker) else None

    def parked(self, table: str, revision: str) -> bool:
        """Whether a revision writes nothing more, and nobody makes it while this is on.

        Its worker gave up; or it was stopped, which is waited for; or its code cannot be loaded.
        """
        own, deadline = f"{table}@{revision}", time.monotonic() + _STOPPING
        worker = self._streams.workers.get(own)
        if worker is not None and worker.state == "parked":
            worker.join(_LEAVING)
        while own in self._streams.idle and own in self._streams.workers:
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return self._streams.keep_out(own)

    def writer(self, table: str, revision: str, part: str) -> RevisionWriter:
        """The writer of a revision or of what lies beside it.

        Opened without a look at the live log, if it has to be: that may be damaged.
        """
        return self._streams.writers.unshown(self.revision(table, revision), part)

    def keys(self, table: str, revision: str) -> tuple[str, ...]:
        """The columns that name a row of a revision."""
        catalog = self._streams.catalog(self.revision(table, revision).bundle)
        return tuple(catalog.tables[TableName.parse(table)].keys)

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


def _off(own: str) -> UsageError:
    return UsageError(
        f"{own} is stopped, or its code is gone.",
        remedy="If it is to be replaced or taken back, type this again; else see "
        f"`penstock streams`, then `penstock streams start {own}`.",
    )


def _not_running(own: str, worker: Worker | None) -> UsageError:
    """Why there is no use in waiting for a worker, and what to do."""
    if worker is None:
        return UsageError(f"{own} is not running.", remedy="See `penstock streams`.")
    error = worker.error.rstrip(".")
    if worker.state in _BEGINNING and worker.failures:
        return UsageError(f"{own} fails and tries again: {error}.", remedy=worker.way_out)
    told = f"{own} is {worker.state}: {error}" if error else f"{own} is {worker.state}"
    return UsageError(f"{told}.", remedy="See `penstock streams`.")
