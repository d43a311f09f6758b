"""Topics as they are now, many asked for at once; what is wrong with one is told of that one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    OffsetSpec,
)

from penstock.errors import PenstockError, ServiceFailed
from penstock.runtime.ingest.mirrors import mirrors, origin
from penstock.runtime.kafka import Topic, client_options
from penstock.settings import Settings

__all__ = ["KafkaTopics", "Topics", "describe_topic"]

_USER = "supervisor"
_TIMEOUT = 15.0
_SHORT_TIMEOUT = 3.0  # for a look that may as well be taken later


class Topics(Protocol):
    """Who can tell about topics."""

    def describe(self, names: Iterable[str]) -> Mapping[str, Topic | PenstockError]:
        """Each topic with where it begins and ends, or why it cannot be read."""

    def ids(self, names: Iterable[str]) -> Mapping[str, str]:
        """The ids of those that answer: a recreated topic has another one."""


class KafkaTopics:
    """The broker, asked over one connection as the supervisor's user."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None

    def describe(self, names: Iterable[str]) -> dict[str, Topic | PenstockError]:
        wanted = sorted(set(names))
        if not wanted:
            return {}
        try:
            admin = self._client()
            cluster = admin.describe_cluster(request_timeout=_TIMEOUT).result()
            asked = admin.describe_topics(TopicCollection(wanted), request_timeout=_TIMEOUT)
        except KafkaException as error:
            return {name: _silent(name, error) for name in wanted}
        found: dict[str, Any] = {name: _answer(name, asked[name]) for name in wanted}
        known = {n: told for n, told in found.items() if not isinstance(told, PenstockError)}
        parts = [
            TopicPartition(n, part.id) for n, told in known.items() for part in told.partitions
        ]
        earliest = _offsets(admin, parts, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        latest = _offsets(admin, parts, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        copies = mirrors(self._settings)
        for name, told in known.items():
            first, last = earliest[name], latest[name]
            if isinstance(first, PenstockError) or isinstance(last, PenstockError):
                found[name] = first if isinstance(first, PenstockError) else last
            else:
                whose = origin(copies, name) or cluster.cluster_id
                found[name] = Topic(name, str(told.topic_id), whose, first, last)
        return found

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        wanted = sorted(set(names))
        if not wanted:
            return {}
        try:
            asked = self._client().describe_topics(
                TopicCollection(wanted), request_timeout=_SHORT_TIMEOUT
            )
        except KafkaException:
            return {}
        answers = {name: _answer(name, future) for name, future in asked.items()}
        return {
            name: str(told.topic_id)
            for name, told in answers.items()
            if not isinstance(told, PenstockError)
        }

    def _client(self) -> AdminClient:
        if self._admin is None:
            options = client_options(self._settings, _USER)
            self._admin = AdminClient(options | {"log_level": 0, "error_cb": _quiet})
        return self._admin


def describe_topic(settings: Settings, name: str) -> Topic:
    """One topic, or an error that says why it cannot be read."""
    told = KafkaTopics(settings).describe([name])[name]
    if isinstance(told, PenstockError):
        raise told
    return told


def _offsets(
    admin: AdminClient, parts: list[TopicPartition], at: OffsetSpec
) -> dict[str, dict[int, int] | PenstockError]:
    """One end of every partition, by topic; a topic with a partition that is mute has an error."""
    found: dict[str, dict[int, int] | PenstockError] = {part.topic: {} for part in parts}
    if not parts:
        return found
    answers = admin.list_offsets(dict.fromkeys(parts, at), request_timeout=_TIMEOUT)
    for part, future in answers.items():
        told = _answer(part.topic, future)
        ends = found[part.topic]
        if isinstance(told, PenstockError):
            found[part.topic] = told
        elif not isinstance(ends, PenstockError):
            ends[part.partition] = told.offset
    return found


def _answer(name: str, future: Future[Any]) -> Any:
    """What a future brings, or the error in our words."""
    try:
        return future.result()
    except KafkaException as error:
        return _silent(name, error)


def _silent(name: str, error: KafkaException) -> ServiceFailed:
    return ServiceFailed(
        f"Kafka does not tell about topic {name}: {error.args[0].str()}",
        remedy="Look at `penstock status`; `penstock register` makes the topics of new streams.",
    )


def _quiet(*_: Any) -> None:
    """Swallow librdkafka's own complaints: a broker that is away is told by the answers."""
