"""The ingest group: one thread that keeps one query over many topics running.

Purpose: a query per topic would cost a planning round, a checkpoint and a job each, several times a
second. How it works: every topic is a *member* with a state of its own, as if it had a worker of
its own. A member that cannot start (its topic is missing, has a gap, its table is foreign) is left
out, says why, and is tried again with back-off; the query is started anew, with it, once it can
join. A member that fails leaves the same way. So the query restarts when who takes part changes,
and never because somebody still cannot. What it does not do: tell topics apart in an error of Spark
that names none; then all members wait and are looked at one by one before the next start.
Known limitation: a topic that is deleted and made again, and outgrows its old offsets before the
next look at its id, is noticed only then.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ForeignCommit, LeaseLost, PenstockError, in_a_line
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.ingest.lane import Lane
from penstock.runtime.ingest.progress import Progress
from penstock.runtime.ingest.query import EVERY, Ingest
from penstock.runtime.ingest.topics import KafkaTopics, Topics
from penstock.runtime.kafka import Topic, spark_options
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import Stream
    from penstock.model.names import TableName

__all__ = ["IngestGroup"]

log = logging.getLogger("penstock.ingest")

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_AT_ONCE = dt.timedelta(0)
_LOOK = 0.5  # seconds between two looks at the query
_LOOK_AT_IDS = 10.0
_PROVEN = 60.0  # after this long without trouble a failure is forgotten


class _Member:
    """One stream: starting, running, waiting (back-off), parked, stopped."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.name = str(stream.name)
        self.state = "starting"
        self.error = ""
        self.failures = 0
        self.retry_at = 0.0
        self.since = self.last_moved = time.monotonic()
        self.lane: Lane | None = None
        self._batches = 0

    def is_due(self, now: float) -> bool:
        """Not in the query, and worth a try."""
        return self.state == "starting" or (self.state == "waiting" and now >= self.retry_at)

    def run(self) -> None:
        self.state = "running"
        self.since = time.monotonic()
        self._batches = self.lane.batches if self.lane is not None else 0

    def look(self) -> None:
        """Has it moved since the last look?"""
        now = time.monotonic()
        moved = self.lane is not None and self.lane.batches != self._batches
        if moved and self.lane is not None:
            self._batches, self.last_moved = self.lane.batches, now
        if moved or now - self.since > _PROVEN:
            self.failures, self.error = 0, ""

    def note(self, state: str, error: Exception) -> None:
        self.state = state
        self.error = in_a_line(error)
        log.warning("%s is %s: %s", self.name, state, self.error, exc_info=error)

    def fail(self, error: Exception) -> None:
        """Wait, longer each time; a table somebody else wrote to is parked until a restart."""
        if isinstance(error, ForeignCommit):
            self.note("parked", error)
            return
        self.failures += 1
        doublings = min(self.failures - 1, 10)  # years of failures must not overflow
        self.retry_at = time.monotonic() + min(_LONGEST_WAIT, _FIRST_WAIT * 2**doublings)
        self.note("waiting", error)

    def status(
        self, durations: dict[str, int], latest: dict[str, dict[int, int]]
    ) -> dict[str, Any]:
        lane, running = self.lane, self.state == "running"
        ends = latest.get(self.stream.topic) if running else None
        return {
            "stream": self.name,
            "state": self.state,
            "idle_seconds": round(time.monotonic() - self.last_moved, 1),
            "failures": self.failures,
            "error": self.error,
            "table": self.name,
            "topic": self.stream.topic,
            "version": lane.bronze.log.version if lane is not None else None,
            "behind": lane.behind(ends) if lane is not None and ends is not None else None,
            "batches": lane.batches if lane is not None else 0,
            "batch_ms": durations if running else {},
        }


class IngestGroup:
    """Keeps the topics of a group flowing into their bronze tables.

    Args:
        streams: what should run; ``want`` changes it later.
        bronze: opens the writer of a bronze table, always the same one for a name.
        on_commit: told the name of a stream after each of its commits.
        on_lease_lost: told once, when a table turns out to be another supervisor's.
        every: how often the query looks for new records.
        waits: how long rows of a stream may wait before they are committed, if they may.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        streams: Iterable[Stream],
        bronze: Callable[[TableName], BronzeWriter],
        *,
        on_commit: Callable[[str], None],
        on_lease_lost: Callable[[], None],
        every: dt.timedelta = EVERY,
        waits: Mapping[str, dt.timedelta] | None = None,
        checkpoints: Path | None = None,
        topics: Topics | None = None,
        query: Callable[..., Ingest] = Ingest,
    ) -> None:
        self._session = session
        self._settings = settings
        self._bronze = bronze
        self._on_commit = on_commit
        self._on_lease_lost = on_lease_lost
        self._checkpoints = checkpoints or settings.run / "checkpoints"
        self._topics = topics or KafkaTopics(settings)
        self._progress = Progress(settings) if topics is None else None
        self._make_query = query
        self._query: Ingest | None = None
        self._members: dict[str, _Member] = {}
        self._asking = threading.Lock()  # over what is asked for: wanted, every, restarts
        self._wanted = {str(stream.name): stream for stream in streams}
        self._every = every
        self._waits = dict(waits or {})
        self._restarts: set[str] = set()
        self._looked_at_ids = 0.0
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._live, name="ingest", daemon=True)

    # --- what others ask for --------------------------------------------------------------
    def start(self) -> None:
        self._thread.start()

    def want(
        self,
        streams: Iterable[Stream],
        every: dt.timedelta | None = None,
        waits: Mapping[str, dt.timedelta] | None = None,
    ) -> None:
        """What should run from now on, and how eagerly; may be said again and again."""
        with self._asking:
            self._waits = dict(waits or self._waits)
            before = self._wanted, self._every
            self._wanted = {str(stream.name): stream for stream in streams}
            self._every = every or self._every
            changed = before[0].keys() != self._wanted.keys() or before[1] != self._every
        if changed:
            self.wake()

    def restart(self, name: str) -> None:
        """Start one stream afresh: its counts begin at zero, and it is no longer parked."""
        with self._asking:
            self._restarts.add(name)
        self.wake()

    def has(self, name: str) -> bool:
        """Whether a stream takes part, or is about to leave: its table may still be written."""
        with self._asking:
            return name in self._members or name in self._wanted

    def wake(self) -> None:
        self._awake.set()

    def ask_to_stop(self) -> None:
        """Finish the batch in hand, commit it, leave; does not wait for it."""
        self._stopping.set()
        self._awake.set()

    @property
    def ended(self) -> bool:
        """True once the thread is gone and nothing can be written any more."""
        return not self._thread.is_alive()

    def join(self, timeout: float = 30.0) -> None:
        self._thread.join(timeout)

    def statuses(self) -> list[dict[str, Any]]:
        """One entry per stream; a stream that was stopped has none."""
        try:
            durations, latest = self._query.progress() if self._query is not None else ({}, {})
        except Exception:  # a status must never take a stream down
            durations, latest = {}, {}
        members = dict(self._members)
        with self._asking:
            coming = [_Member(s) for n, s in self._wanted.items() if n not in members]
        return [m.status(durations, latest) for m in [*members.values(), *coming]]

    # --- the thread -----------------------------------------------------------------------
    def _live(self) -> None:
        lost: LeaseLost | None = None
        while lost is None and not self._stopping.is_set():
            try:
                self._round()
            except LeaseLost as error:
                lost = error
            except Exception as error:
                self._fail_all(error)
            if lost is None:
                self._awake.wait(_LOOK)
                self._awake.clear()
        with suppress(Exception):  # a JVM that is gone cannot be stopped, and writes nothing
            self._end_query()
        for member in list(self._members.values()):
            if lost is not None:
                member.note("stopped", lost)
            elif member.state != "parked":
                member.state = "stopped"
        if lost is not None:
            self._on_lease_lost()

    def _fail_all(self, error: Exception) -> None:
        """What is nobody's fault in particular."""
        with suppress(Exception):
            self._end_query()
        for member in self._members.values():
            if member.state != "parked":
                _fail(member, error)

    def _round(self) -> None:
        """See who wants in, who has to leave, and restart the query if that changes anything."""
        with self._asking:
            wanted, every = dict(self._wanted), self._every
            restarts, self._restarts = self._restarts, set()
            for name, stream in wanted.items():  # from here on it is ours, whoever asks
                self._members.setdefault(name, _Member(stream))
        self._look()
        leaving = self._leaving(wanted, restarts)
        stays = [m for m in self._members.values() if m.name not in leaving]
        now = time.monotonic()
        joining = self._prepare([m for m in stays if m.is_due(now)])
        if not (leaving or joining or self._must_restart(every)):
            return
        self._end_query()
        for name in leaving:
            del self._members[name]
            if name in wanted:
                self._members[name] = _Member(wanted[name])
        fresh = [self._members[name] for name in leaving if name in wanted]
        running = [m for m in stays if m.state == "running"]
        self._begin_query([*joining, *self._prepare([*running, *fresh])], every)

    def _look(self) -> None:
        """What became of the query since the last look."""
        if self._query is None:
            return
        for lane in self._query.lanes:
            lane.every = self._waits.get(lane.name, _AT_ONCE)
            self._members[lane.name].look()
        self._query.flush_due()
        if self._progress is not None:
            self._progress.tell((n.name, n.topic.name, n.offsets) for n in self._query.lanes)
        for name, error in self._query.trouble().items():
            _fail(self._members[name], error)

    def _leaving(self, wanted: dict[str, Stream], restarts: set[str]) -> set[str]:
        """Members that must go: not wanted, to be started afresh, or of another topic now."""
        return {
            name
            for name, member in self._members.items()
            if name not in wanted or name in restarts or member.stream.topic != wanted[name].topic
        }

    def _must_restart(self, every: dt.timedelta) -> bool:
        """Is the query other than it should be?"""
        inside = {m.name for m in self._members.values() if m.state == "running"}
        if self._query is None:
            return bool(inside)
        taking_part = {lane.name for lane in self._query.lanes}
        stale = inside != taking_part or (inside and self._query.every != every)
        return bool(stale or not self._query.running or self._is_recreated())

    def _is_recreated(self) -> bool:
        """Is a topic another one than when the query began? Looked at now and then."""
        now = time.monotonic()
        if self._query is None or now - self._looked_at_ids < _LOOK_AT_IDS:
            return False
        self._looked_at_ids = now
        known = {lane.topic.name: lane.topic.topic_id for lane in self._query.lanes}
        found = self._topics.ids(known)
        other = [name for name in known if found.get(name, known[name]) != known[name]]
        if other:
            log.warning("made again, with another id: %s", ", ".join(sorted(other)))
        return bool(other)

    # --- the query ------------------------------------------------------------------------
    def _prepare(self, members: list[_Member]) -> list[_Member]:
        """Give each a lane at bronze's position; those for which that fails are left out."""
        if not members:
            return []
        topics = self._topics.describe(m.stream.topic for m in members)
        able = []
        for member in members:
            try:
                member.lane = self._lane(member, topics[member.stream.topic])
                able.append(member)
            except Exception as error:
                _fail(member, error)
        return able

    def _lane(self, member: _Member, topic: Topic | PenstockError) -> Lane:
        if isinstance(topic, PenstockError):
            raise topic
        waits = self._waits.get(member.name, _AT_ONCE)
        lane = Lane(member.stream, topic, self._bronze(member.stream.name), waits, self._every)
        if member.lane is not None:
            lane.go_on_from(member.lane)
        return lane

    def _begin_query(self, members: list[_Member], every: dt.timedelta) -> None:
        lanes = [m.lane for m in members if m.lane is not None]
        if not lanes or self._stopping.is_set():
            return
        query = self._make_query(
            self._session, lanes, self._on_commit, every=every, on_trouble=self.wake
        )
        try:
            query.start(spark_options(self._settings), self._checkpoints)
        except Exception as error:
            query.stop()
            for member in members:
                _fail(member, error)
            return
        self._query = query
        self._looked_at_ids = time.monotonic()
        for member in members:
            member.run()
        log.info("reading %s", ", ".join(lane.topic.name for lane in lanes))

    def _end_query(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()


def _fail(member: _Member, error: Exception) -> None:
    """Note what happened to one stream; a lost lease is everybody's."""
    if isinstance(error, LeaseLost):
        raise error
    member.fail(error)
