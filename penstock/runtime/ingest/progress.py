"""Ingest progress for ordinary lag tools: each stream's position as offsets of a consumer group.

The group of ``bronze.trades`` is ``penstock.bronze.trades``. What counts is the position in the
bronze log, as ever; this is a copy of it for people and monitors, a few seconds old, and nothing
reads it back. A broker that is away or refuses costs nothing but the copy.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.errors import PenstockError
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

__all__ = ["GROUP_PREFIX", "Progress"]

log = logging.getLogger("penstock.ingest")

GROUP_PREFIX = "penstock."
_USER = "supervisor"
_EVERY = 5.0  # seconds between two commits of a group
_AGAIN = 600.0  # said again even if nothing moved: a broker forgets a group that is silent for days
_TIMEOUT = 10.0
# stream, topic, the next offset of each partition
Reached = tuple[str, str, Mapping[int, int]]


class Progress:
    """Tells positions; never waits, and never fails whoever tells."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        self._said: dict[str, tuple[float, dict[int, int]]] = {}
        self._asked: dict[str, Future[Any]] = {}
        self.trouble = ""

    def tell(self, reached: Iterable[Reached]) -> None:
        """Commit what moved since it was last told, if that is some seconds ago."""
        try:
            self._settle()
            now = time.monotonic()
            for stream, topic, offsets in reached:
                at, before = self._said.get(stream, (float("-inf"), {}))
                due = now - at > (_EVERY if dict(offsets) != before else _AGAIN)
                if offsets and due and stream not in self._asked:
                    self._said[stream] = (now, dict(offsets))
                    self._asked[stream] = self._commit(stream, topic, offsets)
        except (KafkaException, PenstockError, OSError) as error:
            self._note(str(error))

    def _commit(self, stream: str, topic: str, offsets: Mapping[int, int]) -> Future[Any]:
        if self._admin is None:
            quiet = {"log_level": 0, "error_cb": lambda *_: None}
            self._admin = AdminClient(client_options(self._settings, _USER) | quiet)
        group = f"{GROUP_PREFIX}{stream}"
        wanted = [TopicPartition(topic, part, offset) for part, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        answers = self._admin.alter_consumer_group_offsets(request, request_timeout=_TIMEOUT)
        future: Future[Any] = answers[group]
        return future

    def _settle(self) -> None:
        """Look at what was asked; what failed is said again next time."""
        for stream, future in [(s, f) for s, f in self._asked.items() if f.done()]:
            del self._asked[stream]
            error = _error(future)
            if error:
                at, _ = self._said[stream]
                self._said[stream] = (at, {})
                self._note(f"{stream}: {error}")
            else:
                self.trouble = ""

    def _note(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("progress is not told to Kafka: %s", trouble)
        self.trouble = trouble


def _error(future: Future[Any]) -> str:
    """What went wrong with a request, or with one of its partitions."""
    failed = future.exception()
    if failed is not None:
        return str(failed)
    errors = [part.error for part in future.result().topic_partitions if part.error is not None]
    return str(errors[0]) if errors else ""
