"""Commits of one consumer: one at a time, numbered, and never an older one over a newer.

**Why.** A commit that failed may be sent again only if nothing newer was asked for meanwhile, and
librdkafka itself may send a request again after a later one went out. So there is never more than
one under way: asynchronous commits are made by a thread, in the order they were asked for; several
that wait become one; each partition remembers the number of the newest, and a failed one that is
not the newest any more is dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.errors import ServiceFailed

__all__ = ["Commits", "Partition"]

Partition = tuple[str, int]
Send = Callable[[list[TopicPartition]], list[TopicPartition] | None]

_LOG = logging.getLogger("penstock.clients")
_PAUSE = 0.2  # seconds before a failed commit is tried again
_PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
}


@dataclass(frozen=True)
class _Wanted:
    number: int
    offset: int


class Commits:
    """Takes offsets, the next to read of each partition, and brings them to the broker."""

    def __init__(self, group: str, send: Send) -> None:
        self._group = group
        self._send = send
        self._numbers = count(1)
        self._sending = threading.Lock()  # held while a commit is under way
        self._changed = threading.Condition()
        self._waiting: dict[Partition, _Wanted] = {}
        self._newest: dict[Partition, int] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def later(self, offsets: Mapping[Partition, int]) -> None:
        """Commit without waiting; tried again until it succeeds or something newer comes."""
        with self._changed:
            self._waiting.update(self._numbered(offsets))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="commits", daemon=True)
                self._thread.start()
            self._changed.notify()

    def now(self, offsets: Mapping[Partition, int], patience: float = 30.0) -> None:
        """Commit and wait; raises ServiceFailed if that cannot be done in time."""
        with self._changed:
            wanted = self._numbered(offsets)
            for partition in wanted:
                self._waiting.pop(partition, None)
        deadline = time.monotonic() + patience
        while wanted:
            with self._sending:
                failed = self._attempt(wanted)
            wanted = {partition: wanted[partition] for partition in failed}
            lasting = [error for error in failed.values() if error.code() not in _PASSING]
            if wanted and (lasting or time.monotonic() > deadline):
                raise self._refused(*(lasting or failed.values()))
            if wanted:
                time.sleep(_PAUSE)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """They are another member's now: what waits for them must not be sent any more."""
        with self._changed:
            for partition in partitions:
                self._waiting.pop(partition, None)
                self._newest.pop(partition, None)

    def close(self) -> None:
        """End the thread; what still waits is the caller's to commit with `now` before."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _numbered(self, offsets: Mapping[Partition, int]) -> dict[Partition, _Wanted]:
        number = next(self._numbers)
        self._newest.update(dict.fromkeys(offsets, number))
        return {partition: _Wanted(number, offset) for partition, offset in offsets.items()}

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                taken, self._waiting = self._waiting, {}
            with self._sending:
                failed = self._attempt(self._still_newest(taken))
            if failed:
                self._ask_again(taken, failed)

    def _still_newest(self, wanted: Mapping[Partition, _Wanted]) -> dict[Partition, _Wanted]:
        with self._changed:
            return {p: w for p, w in wanted.items() if self._newest.get(p) == w.number}

    def _ask_again(
        self, taken: Mapping[Partition, _Wanted], failed: Mapping[Partition, KafkaError]
    ) -> None:
        passing = {p: taken[p] for p, error in failed.items() if error.code() in _PASSING}
        for partition, error in failed.items():
            if partition not in passing:
                _LOG.warning("%s", self._refused(error).message)
        with self._changed:
            self._changed.wait_for(lambda: self._closed, timeout=_PAUSE)
            for partition, wanted in passing.items():
                if self._newest.get(partition) == wanted.number:
                    self._waiting[partition] = wanted

    def _attempt(self, wanted: Mapping[Partition, _Wanted]) -> dict[Partition, KafkaError]:
        """One request; the partitions it failed for."""
        if not wanted:
            return {}
        asked = [TopicPartition(*p, w.offset) for p, w in wanted.items()]
        try:
            answered = self._send(asked) or []
        except KafkaException as error:
            return dict.fromkeys(wanted, error.args[0])
        return {(a.topic, a.partition): a.error for a in answered if a.error is not None}

    def _refused(self, error: KafkaError, *_: KafkaError) -> ServiceFailed:
        return ServiceFailed(
            f"group {self._group} could not commit its offsets: {error.str()} ({error.name()}).",
            remedy="What it did since its last commit will be read again. If this stays, look at "
            "`penstock status` and at the group's rights.",
        )
