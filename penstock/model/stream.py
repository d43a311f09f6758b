"""Declaring a topic: ``stream`` names it, its contract, and where its event time comes from."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.model.contract import Contract
from penstock.model.names import TableName
from penstock.model.place import Place, caller, parse_name, raise_if

__all__ = ["EventTime", "Stream", "stream"]


class EventTime(StrEnum):
    """Where a stream's event time comes from."""

    RECORD = "record"  # the record's CreateTime, set by its producer
    INGEST = "ingest"  # the time bronze stored: processing time that a replay repeats


@dataclass(frozen=True)
class Stream:
    """A Kafka topic kept, byte for byte, as an append-only bronze table."""

    name: TableName
    topic: str
    contract: Contract
    event_time: EventTime | str
    owner: str
    doc: str
    place: Place

    @property
    def event_time_field(self) -> str | None:
        """The payload field that holds the event time, if it comes from the payload."""
        return None if isinstance(self.event_time, EventTime) else self.event_time

    def describe(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "contract": self.contract.describe(),
            "event_time": str(self.event_time),
        }


def stream(
    name: str,
    *,
    topic: str,
    contract: Contract,
    event_time: EventTime | str = EventTime.RECORD,
    owner: str = "",
    doc: str = "",
) -> Stream:
    """Declare a topic and the bronze table that keeps it.

    Args:
        name: ``bronze.<name>``.
        topic: the Kafka topic.
        contract: schema and rules; rows that break it never reach silver, and never get lost.
        event_time: ``EventTime.RECORD``, ``EventTime.INGEST`` or the name of a timestamp field.
    """
    place = caller(sys._getframe(1))
    table_name = parse_name(name, place)
    problems = list(contract.problems())
    if table_name.layer != "bronze":
        problems.append(f"a stream is kept in the bronze layer: name it bronze.{table_name.name}")
    if not isinstance(event_time, EventTime) and event_time not in contract.columns:
        problems.append(
            f"event_time is {event_time!r}, which is neither an EventTime nor a field; "
            f"the fields are {', '.join(contract.columns)}"
        )
    raise_if(problems, f"stream {name}", place)
    return Stream(table_name, topic, contract, event_time, owner, doc, place)
