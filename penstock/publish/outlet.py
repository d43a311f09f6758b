"""The one producer everything is published by: records and positions in one transaction.

**How it works.** One transactional id for the whole stack. To begin with it ends or completes what
a predecessor left open and shuts that one out; only then are the positions read. From there on
nobody else can write them, so what is in memory is what is in the topic. Whenever the outcome of a
transaction is not known for certain, all of this is done again before anything else is sent.

**What it does not do.** Decide what to send, or try again: ``work`` does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from penstock.clients.records import RecordProducer
from penstock.errors import PenstockError, ProducerUnusable
from penstock.publish.positions import POSITIONS, read_notes
from penstock.publish.topics import USER, Topics

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Outlet"]

log = logging.getLogger("penstock.publish")

TRANSACTIONAL_ID = "penstock-publisher"
_OPTIONS = {"queue.buffering.max.kbytes": 16_384}  # beside the streams; a full buffer makes us wait


class Outlet:
    """Transactions to published topics, and the notes that go with them."""

    def __init__(self, settings: Settings, transactional_id: str = TRANSACTIONAL_ID) -> None:
        self._settings = settings
        self._transactional_id = transactional_id
        self.topics = Topics(settings)
        self.openings = 0  # what was known before the last one may not be so any more
        self._producer: RecordProducer | None = None
        self._notes: dict[str, bytes] = {}
        self._pending: dict[str, bytes | None] = {}

    def open(self) -> None:
        """Be the one who publishes; needed before anything else, and after any doubt."""
        if self._producer is not None:
            return
        self.topics.made(POSITIONS, 1)
        producer = RecordProducer(
            self._settings, user=USER, transactional_id=self._transactional_id, options=_OPTIONS
        )
        self._notes = read_notes(self._settings)  # after the fence: not a moment earlier
        self._producer = producer
        self.openings += 1

    @property
    def opened(self) -> bool:
        return self._producer is not None

    def note(self, name: str) -> bytes | None:
        """What was last noted under a name, in a transaction that was committed."""
        return self._notes.get(name)

    def planned(self, name: str) -> bytes | None:
        """The same, with what this transaction is about to note."""
        return self._pending[name] if name in self._pending else self._notes.get(name)

    @contextmanager
    def transaction(self) -> Iterator[Outlet]:
        """What is sent and noted within counts together, or not at all.

        Raises:
            ProducerUnusable: somebody else publishes now.
        """
        self.open()
        assert self._producer is not None  # noqa: S101
        self._pending = {}
        try:
            with self._producer.transaction():
                yield self
                for name, value in self._pending.items():
                    self._producer.send(POSITIONS, value, name.encode())
        except BaseException as error:
            self._forget()
            if isinstance(error, PenstockError) and not isinstance(error, ProducerUnusable):
                log.warning("a transaction was given up: %s", error)
            raise
        for name, value in self._pending.items():
            if value is None:
                self._notes.pop(name, None)
            else:
                self._notes[name] = value

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        assert self._producer is not None  # noqa: S101
        self._producer.send(topic, value, key, headers=headers)

    def keep(self, name: str, value: bytes | None) -> None:
        """Note something with this transaction; None takes it back."""
        self._pending[name] = value

    def _forget(self) -> None:
        """Whether it was committed or not is not ours to guess: begin anew."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):  # it may be past that
                producer.kafka.purge()
                producer.kafka.poll(0)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(5)
