"""Declaring a topic: ``stream`` names it, its contract, and where its event time comes from."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.model.contract import Contract
from penstock.model.contract_time import LocalTime
from penstock.model.formats import Debezium
from penstock.model.names import TableName
from penstock.model.place import Place, caller, parse_name, raise_if

__all__ = ["EventTime", "LocalTime", "Stream", "stream"]


class EventTime(StrEnum):
    """Where a stream's event time comes from."""

    RECORD = "record"  # the record's CreateTime, set by its producer
    LOG_APPEND = "log_append"  # the broker's time; the topic must be set to it
    INGEST = "ingest"  # the time bronze stored: processing time that a replay repeats
    COMMIT = "commit"  # when the source database committed the change (Debezium)


@dataclass(frozen=True)
class Stream:
    """A Kafka topic kept, byte for byte, as an append-only bronze table."""

    name: TableName
    topic: str
    contract: Contract
    event_time: EventTime | LocalTime | str
    owner: str
    doc: str
    place: Place

    @property
    def event_time_field(self) -> str | None:
        """The payload field that holds the event time, if it comes from the payload."""
        return None if isinstance(self.event_time, EventTime | LocalTime) else self.event_time

    def describe(self) -> dict[str, Any]:
        time = self.event_time
        return {
            "topic": self.topic,
            "contract": self.contract.describe(),
            "event_time": time.describe() if isinstance(time, LocalTime) else str(time),
        }


def stream(
    name: str,
    *,
    topic: str,
    contract: Contract,
    event_time: EventTime | LocalTime | str = EventTime.RECORD,
    owner: str = "",
    doc: str = "",
) -> Stream:
    """Declare a topic and the bronze table that keeps it.

    Args:
        name: ``bronze.<name>``.
        topic: the Kafka topic.
        contract: schema and rules; rows that break it never reach silver, and never get lost.
        event_time: an ``EventTime``, the name of a timestamp field, or ``LocalTime`` for wall time
            with a zone.
    """
    place = caller(sys._getframe(1))
    table_name = parse_name(name, place)
    problems = list(contract.problems())
    if table_name.layer != "bronze":
        problems.append(f"a stream is kept in the bronze layer: name it bronze.{table_name.name}")
    if not problems:
        problems += _time_problems(event_time, contract)
    raise_if(problems, f"stream {name}", place)
    return Stream(table_name, topic, contract, event_time, owner, doc, place)


def _time_problems(event_time: EventTime | LocalTime | str, contract: Contract) -> list[str]:
    kinds = contract.kinds
    if isinstance(event_time, LocalTime):
        return event_time.problems(kinds)
    if isinstance(event_time, EventTime):
        foreign = event_time is EventTime.COMMIT and not isinstance(contract.format, Debezium)
        return ["event_time is COMMIT, which only changes of Debezium have"] if foreign else []
    if event_time not in kinds:
        return [
            f"event_time is {event_time!r}, which is neither an EventTime nor a field; "
            f"the fields are {', '.join(kinds)}"
        ]
    if kinds[event_time] == "local_timestamp":
        return [
            f"event_time {event_time!r} is local time; say where: LocalTime({event_time!r}, zone)"
        ]
    fits = kinds[event_time] == "timestamp"
    return [] if fits else [f"event_time {event_time!r} is {kinds[event_time]}, not a timestamp"]
