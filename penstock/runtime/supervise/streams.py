"""The streams of one supervisor: from registered revisions to running workers.

While a supervisor has a slot it has one ``Streams``: the writers of every table it holds, each
opened under the table's token, and a worker per topic and per revision. ``converge`` compares what
should run with what does and starts or stops the difference.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError, PenstockError
from penstock.model.catalog import Catalog
from penstock.model.definition import Table
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.ingest.query import EVERY
from penstock.runtime.ingest.worker import IngestGroup
from penstock.runtime.kinds.build import changes, follower
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.runtime.kinds.history import adopt_history
from penstock.runtime.registry import Revision
from penstock.runtime.staging import Candidate, Hold
from penstock.runtime.supervise.errands import Errands
from penstock.runtime.supervise.holds import Holds
from penstock.runtime.supervise.patience import AT_ONCE, LONGEST_HOLD, SELDOM, runs, waits
from penstock.runtime.supervise.shares import Shares
from penstock.runtime.supervise.turns import Turns, longest_wait
from penstock.runtime.supervise.worker import FollowWorker, Worker
from penstock.runtime.supervise.world import RunningWorld
from penstock.runtime.supervise.writers import Writers
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Streams", "checkpoints"]

log = logging.getLogger("penstock.streams")


class Streams:
    """Everything that runs in one slot."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        shares: Shares,
        on_lease_lost: Callable[[], None],
    ) -> None:
        self.session = session
        self.settings = settings
        self.shares = shares
        self.workers: dict[str, Worker] = {}
        self.broken: dict[str, str] = {}
        self.closed = False  # the slot is over; what is held next is held for another
        self._on_lease_lost = on_lease_lost
        self._schemas = SchemaRegistry(settings.registry_url)
        self._catalogs: dict[str, Catalog] = {}
        self.writers = Writers(settings.warehouse, self.token_of)
        self._revisions: dict[tuple[str, str], Revision] = {}
        self._readers: dict[str, list[str]] = {}  # a stream -> the streams to wake when it moves
        self._restarts: dict[str, int] | None = None
        self._leaving: set[str] = set()
        self.idle: frozenset[str] = frozenset()  # known revisions that are not to run
        self._kept_out: set[str] = set()  # that an operation counts on not to run
        self._starting = threading.Lock()
        self._ingests: dict[str, IngestGroup] = {}  # by pace
        self._turns = Turns(os.cpu_count() or 2)
        self._holds = Holds(self.writers, self.workers)
        self.errands = Errands(self, shares.answers_for, shares.slot)

    # --- convergence ----------------------------------------------------------------------
    def converge(
        self,
        revisions: list[Revision],
        wishes: dict[str, tuple[bool, int]],
        candidates: Iterable[Candidate] = (),
        held: Mapping[str, Hold] = MappingProxyType({}),
    ) -> None:
        """Start what should run and does not; stop what runs and should not.

        Args:
            candidates: what is staged; one whose history is built elsewhere does not run yet.
            held: who holds the tables whose live log stands still.
        """
        staged = {(c.table, c.revision): c for c in candidates}
        revisions = [r for r in revisions if runs(r, staged.get((r.table, r.revision)))]
        self.writers.held = frozenset(held)
        wanted: dict[str, Callable[[], Worker]] = {}
        topics: dict[str, tuple[Stream, dt.timedelta]] = {}
        self._revisions = self.writers.revisions = {(r.table, r.revision): r for r in revisions}
        for revision in revisions:
            try:
                self._want(revision, wanted, topics)
                self.broken.pop(revision.table, None)
            except DefinitionError as error:
                if self.broken.get(revision.table) != str(error):
                    log.error("%s cannot run: %s", revision.table, error)
                self.broken[revision.table] = str(error)
        for name in [n for n in (*wanted, *topics) if not wishes.get(n, (True, 0))[0]]:
            wanted.pop(name, None)
            topics.pop(name, None)
        for name in self._asked_to_restart(wishes):
            if name in self.workers:
                self._ask_to_stop(name)
            for group in self._ingests.values():
                if group.has(name):
                    group.restart(name)
        for name in [n for n in self.workers if n not in wanted]:
            self._ask_to_stop(name)
        names = (f"{r.table}@{r.revision}" for r in revisions)
        self.idle = frozenset(name for name in names if name not in wanted)
        self._bury()
        self._take_in(topics)
        self._start(wanted)
        self._set_paces(staged)
        self._holds.look(held)

    def _start(self, wanted: Mapping[str, Callable[[], Worker]]) -> None:
        with self._starting:
            if not self.errands.busy:
                self._kept_out.clear()
            for name, make in wanted.items():
                if name not in self.workers and name not in self._kept_out:
                    self.workers[name] = make()
                    self.workers[name].start()

    def keep_out(self, name: str) -> bool:
        """Whether a revision writes nothing more: its worker gave up, was stopped, or cannot be.

        Nor is it started before the operation that asks this is over.
        """
        with self._starting:
            worker = self.workers.get(name)
            parked = worker is not None and worker.state == "parked" and worker.ended
            if parked or (worker is None and name in self.idle):
                self._kept_out.add(name)
            return name in self._kept_out

    def _set_paces(self, staged: Mapping[tuple[str, str], Candidate]) -> None:
        """Candidates go at the pace that was asked for; all others, promoted ones too, at full."""
        paces = {f"{t}@{r}": 0.0 if c.paused else c.share for (t, r), c in staged.items()}
        for name, worker in self.workers.items():
            if isinstance(worker, FollowWorker):
                worker.share = paces.get(name, 1.0)

    def _take_in(self, topics: dict[str, tuple[Stream, dt.timedelta]]) -> None:
        """Topics in two queries: those somebody is in a hurry for, and the others.

        One continuous table would have every topic looked at five times a second. A topic that goes
        over from one to the other is left by the one first.
        """
        hasty = {name for name, (_, every) in topics.items() if not every}
        for pace, members in (("hasty", hasty), ("patient", topics.keys() - hasty)):
            others = [group for other, group in self._ingests.items() if other != pace]
            free = [name for name in members if not any(group.has(name) for group in others)]
            self._read(pace, {name: topics[name] for name in sorted(free)})

    def _read(self, pace: str, topics: dict[str, tuple[Stream, dt.timedelta]]) -> None:
        """Some topics in one query, looked at as often as the most eager of their readers needs."""
        streams = [stream for stream, _ in topics.values()]
        eager = min((every for _, every in topics.values()), default=EVERY) / 4
        eager = max(EVERY, min(eager, SELDOM))
        # Rows wait here for as long as their readers let them: then those go without waiting more.
        waits = {
            name: max(AT_ONCE, min(longest_wait(every), LONGEST_HOLD) - eager)
            for name, (_, every) in topics.items()
        }
        if pace in self._ingests:
            self._ingests[pace].want(streams, eager, waits)
        elif streams:
            self._ingests[pace] = IngestGroup(
                self.session,
                self.settings,
                streams,
                self.writers.bronze,
                on_commit=lambda name: self._waker(name)(),
                on_lease_lost=self._on_lease_lost,
                every=eager,
                waits=waits,
                checkpoints=checkpoints(self.settings, self.shares.slot),
            )
            self._ingests[pace].start()

    def _asked_to_restart(self, wishes: dict[str, tuple[bool, int]]) -> list[str]:
        """Streams whose restart was asked for since the last look; what came before us is done."""
        asked = {name: count for name, (_, count) in wishes.items()}
        before = asked if self._restarts is None else self._restarts
        self._restarts = asked
        return [name for name in asked if asked[name] > before.get(name, 0)]

    @property
    def world(self) -> RunningWorld:
        """What runs, as operations on it need it."""
        return RunningWorld(self)

    def breaches(self) -> dict[str, str]:
        """Tables that a guard holds and nobody knows of yet, and why."""
        return self._holds.breaches()

    def leave(self, name: str) -> None:
        """A worker that is parked may be forgotten, and so be made anew."""
        self._leaving.add(name)

    def readers(self, stream: str) -> list[str]:
        """Who reads a stream or a revision."""
        return list(self._readers.get(stream, []))

    # --- tables that come and go ------------------------------------------------------------
    def token_of(self, table: str) -> int:
        """What a table is written under; only while it is held, and in this slot.

        Whoever is still at work afterwards must not go on under what the next slot is given.
        """
        if self.closed:
            raise PenstockError(f"{table} was written in a slot that is over.")
        try:
            return self.shares.held[table]
        except KeyError:
            raise PenstockError(f"{table} is another supervisor's.") from None

    def in_use(self, table: str) -> bool:
        """Whether anything here could still write a table."""
        worked_on = any(name.partition("@")[0] == table for name in list(self.workers))
        return worked_on or any(group.has(table) for group in self._ingests.values())

    def _ask_to_stop(self, name: str) -> None:
        """Never wait here: the lease must be renewed meanwhile."""
        self.workers[name].ask_to_stop()
        self._leaving.add(name)

    def _bury(self) -> None:
        """Forget workers that were asked to stop, once they cannot write any more.

        Until then their name stays taken: two workers of one table must not run at once.
        """
        for name in [n for n, w in self.workers.items() if w.ended]:
            if name in self._leaving or self.workers[name].state not in ("parked", "stopped"):
                self._leaving.discard(name)
                del self.workers[name]

    def stop(self) -> None:
        """Topics first, then what follows them, each after the batch in hand."""
        self.errands.stop()
        for group in self._ingests.values():
            group.ask_to_stop()
        for worker in self.workers.values():
            worker.ask_to_stop()
        for group in self._ingests.values():
            group.join()
        for worker in self.workers.values():
            worker.join()
        self.closed = True  # not before: what was in hand was finished
        self.workers.clear()
        self._leaving.clear()

    def status(self) -> list[dict[str, Any]]:
        broken = [
            {"stream": table, "state": "broken", "error": reason, "table": table}
            for table, reason in self.broken.items()
        ]
        topics = [entry for group in self._ingests.values() for entry in group.statuses()]
        topics.sort(key=lambda entry: str(entry["stream"]))
        return topics + [worker.status() for worker in list(self.workers.values())] + broken

    def logs(self) -> list[DeltaLog]:
        """Every log this supervisor writes, for upkeep."""
        return self.writers.logs()

    # --- from a revision to workers -------------------------------------------------------
    def _want(
        self,
        revision: Revision,
        wanted: dict[str, Callable[[], Worker]],
        topics: dict[str, tuple[Stream, dt.timedelta]],
    ) -> None:
        """Add what a revision needs to run: its topic, and its own worker."""
        name = TableName.parse(revision.table)
        catalog = self.catalog(revision.bundle)
        if name not in catalog.tables:
            reason = next((b.reason for b in catalog.broken), "it is not in its bundle")
            raise DefinitionError(f"{name} revision {revision.revision}: {reason}")
        definition = catalog.tables[name]
        own = f"{name}@{revision.revision}"
        stream = catalog.stream_of(definition)
        for source in definition.inputs.values():
            upstream = f"{source}@{revision.inputs[str(source)]}"
            if stream is not None:
                upstream = str(stream.name)
                every = waits(revision, definition)
                every = SELDOM if every is None else every
                known = topics.get(upstream, (stream, every))
                topics[upstream] = (known[0], min(known[1], every))
            readers = self._readers.setdefault(upstream, [])
            if own not in readers:
                readers.append(own)
        running = self.workers.get(own)
        if isinstance(running, FollowWorker):
            running.every = waits(revision, definition)
        wanted[own] = lambda: self._follow_worker(own, revision, catalog)

    def catalog(self, address: str) -> Catalog:
        """What a bundle declares."""
        if address not in self._catalogs:
            root = self.settings.bundles / address
            if not root.is_dir():
                raise DefinitionError(f"its code bundle {address} is gone from {root.parent}.")
            self._catalogs[address] = Bundle(root, self.settings.jobs).catalog()
        return self._catalogs[address]

    def _follow_worker(self, own: str, revision: Revision, catalog: Catalog) -> Worker:
        def make() -> Follower:
            return self._follower(revision, catalog)

        every = waits(revision, catalog.tables[TableName.parse(revision.table)])
        wake = self._waker(own)
        return FollowWorker(own, make, self._on_lease_lost, wake, every=every, turns=self._turns)

    def _follower(self, revision: Revision, catalog: Catalog) -> Follower:
        definition = catalog.tables[TableName.parse(revision.table)]
        name = definition.name
        context = TableContext(
            self.session,
            definition,
            revision.revision,
            self.writers.of(revision),
            self.writers.beside(revision, "quarantine"),
            self.writers.beside(revision, "late"),
            self.writers.beside(revision, "outcomes"),
            self.settings.home / "stores" / str(name) / revision.revision,
        )
        stream = catalog.stream_of(definition)
        inputs = {
            argument: self._input(argument, source, revision, catalog)
            for argument, source in definition.inputs.items()
        }
        adopt_history(context)
        return follower(context, inputs, stream, self._schemas)

    def _input(self, argument: str, name: TableName, revision: Revision, catalog: Catalog) -> Input:
        if name in catalog.streams:
            return Input(argument, str(name), self.writers.bronze(name))
        upstream = self._revisions.get((str(name), revision.inputs[str(name)]))
        if upstream is None:
            raise DefinitionError(f"{name}, which it reads, is not fed any more.")
        source = self.writers.of(upstream)
        return Input(argument, str(name), source, changes(catalog, _table(catalog, name)))

    def wake(self, stream: str) -> None:
        self._waker(stream)()

    def _waker(self, stream: str) -> Callable[[], None]:
        def wake() -> None:
            for reader in self.readers(stream):
                worker = self.workers.get(reader)
                if worker is not None:
                    worker.wake()

        return wake


def checkpoints(settings: Settings, slot: int) -> Path:
    """Where Spark keeps those of one supervisor; all are disposable."""
    return settings.run / "checkpoints" / str(slot)


def _table(catalog: Catalog, name: TableName) -> Table:
    if name not in catalog.tables:
        raise DefinitionError(f"{name}, which it reads, is not in its bundle.")
    return catalog.tables[name]
