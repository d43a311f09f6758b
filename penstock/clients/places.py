"""Where to read from, and how far that is from the end."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from penstock.clients.commits import Partition
from penstock.errors import ServiceFailed

__all__ = ["Start", "at_offsets", "at_time", "lag", "seek", "seek_to_time"]

# Given partitions that were just assigned, says where each begins: the same ones, with offsets.
Start = Callable[[Consumer, list[TopicPartition]], list[TopicPartition]]

_TIMEOUT = 30.0
_LAST, _FIRST = -1, -2  # as Kafka's protocol names the ends when offsets are asked for by time


def at_time(when: dt.datetime) -> Start:
    """Begin at the first record of that time or later, where the group has committed nothing."""

    def start(kafka: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        known = kafka.committed(partitions, timeout=_TIMEOUT)
        new = [part for part in known if part.offset == OFFSET_INVALID]
        return [part for part in known if part.offset >= 0] + _offsets_at(kafka, new, when)

    return start


def at_offsets(offsets: Mapping[Partition, int]) -> Start:
    """Begin at these offsets, where the group has committed nothing."""

    def start(kafka: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        known = kafka.committed(partitions, timeout=_TIMEOUT)
        for part in known:
            if part.offset == OFFSET_INVALID:
                part.offset = offsets.get((part.topic, part.partition), OFFSET_INVALID)
        return known

    return start


def seek_to_time(kafka: Consumer, when: dt.datetime) -> dict[Partition, int]:
    """Move every assigned partition to the first record of that time or later, or to its end."""
    found = _offsets_at(kafka, kafka.assignment(), when)
    for part in found:
        seek(kafka, part)
    return {(part.topic, part.partition): part.offset for part in found}


def _offsets_at(
    kafka: Consumer, partitions: Sequence[TopicPartition], when: dt.datetime
) -> list[TopicPartition]:
    if not partitions:
        return []
    stamp = int(when.timestamp() * 1000)
    asked = [TopicPartition(part.topic, part.partition, stamp) for part in partitions]
    try:
        found = kafka.offsets_for_times(asked, timeout=_TIMEOUT)
    except KafkaException as error:
        raise _unanswered("the offsets of a time", error.args[0]) from None
    for part in found:
        if part.error is not None:
            raise _unanswered(f"{part.topic}/{part.partition} at a time", part.error)
        if part.offset < 0:  # nothing that young: a number, so that what comes next is not missed
            part.offset = kafka.get_watermark_offsets(part, timeout=_TIMEOUT)[1]
    return found


def seek(kafka: Consumer, part: TopicPartition) -> None:
    """Seek, once the partition has begun to be fetched; before that librdkafka refuses."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            return kafka.seek(part)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                raise _unanswered(f"a seek in {part.topic}", error.args[0]) from None
            time.sleep(0.05)


def lag(kafka: Consumer) -> dict[Partition, int]:
    """How many offsets each assigned partition has after the last one read.

    Offsets, not records: transactions and compaction take some that nobody will ever read.
    """
    assigned = kafka.assignment()
    read = {(p.topic, p.partition): p.offset for p in kafka.position(assigned)}
    unread = [part for part in assigned if read[part.topic, part.partition] < 0]
    if unread:
        first = _ends(kafka, unread, _FIRST)
        for part in kafka.committed(unread, timeout=_TIMEOUT):
            name = (part.topic, part.partition)
            read[name] = max(part.offset, first[name])
    return {name: end - read[name] for name, end in _ends(kafka, assigned, _LAST).items()}


def _ends(kafka: Consumer, partitions: list[TopicPartition], which: int) -> dict[Partition, int]:
    """One question for all: each would wait behind the fetch that is under way."""
    asked = [TopicPartition(part.topic, part.partition, which) for part in partitions]
    try:
        found = kafka.offsets_for_times(asked, timeout=_TIMEOUT)
    except KafkaException as error:
        raise _unanswered("the ends of partitions", error.args[0]) from None
    return {(part.topic, part.partition): part.offset for part in found}


def _unanswered(what: str, error: KafkaError) -> ServiceFailed:
    return ServiceFailed(
        f"Kafka does not give {what}: {error.str()} ({error.name()}).",
        remedy="Look at `penstock status`, and at what this user may read.",
    )
