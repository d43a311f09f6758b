"""Declaring what leaves the house: changelog topics, event topics and notifications.

A publication is about a table, not part of what the table means: declaring one makes no new
revision. Whatever it publishes comes from the live table alone, so candidates and rebuilt history
publish nothing, and a promote publishes only what differs.

    PUBLISHED = [
        changelog("gold.inventory"),
        events("gold.error_events", topic="out.errors_high", format=Json()),
        notification("gold.big_sales", name="big_sale", to="salesperson",
                     subject="Sale {sale_id}", text="{quantity} of {model}: {revenue} $"),
    ]

A module-level name holds one of them, or a list of several.
"""

from __future__ import annotations

import re
import string
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from penstock.model.definition import Table
from penstock.model.duration import parse_duration
from penstock.model.formats import Avro, Format, Json
from penstock.model.names import TableName, is_identifier
from penstock.model.place import Place, caller, parse_name, raise_if

__all__ = [
    "IMMEDIATELY",
    "TOPIC_PREFIX",
    "Changelog",
    "Events",
    "Notification",
    "Publication",
    "changelog",
    "events",
    "notification",
]

# What the publisher may make and write. No topic a stream reads begins so unless somebody means it,
# so a table cannot be published into its own input by mistake.
TOPIC_PREFIX = "out."
IMMEDIATELY = "immediately"
_TOPIC = re.compile(r"out\.[a-zA-Z0-9._-]{1,200}")
_MOST_PARTITIONS = 64


@dataclass(frozen=True)
class Publication(ABC):
    """The base of all ways out."""

    table: TableName
    place: Place

    word: ClassVar[str]

    @property
    @abstractmethod
    def target(self) -> str:
        """What is published to; no two publications share it."""

    @abstractmethod
    def problems(self, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        """What is wrong with it, given what the table has."""

    def describe(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {"kind": self.word, "table": str(self.table), "place": str(self.place)}


@dataclass(frozen=True)
class TopicPublication(Publication):
    """What goes to a topic of its own."""

    topic: str
    format: Format
    partitions: int

    @property
    def target(self) -> str:
        return self.topic

    def describe(self) -> dict[str, Any]:
        told = {"topic": self.topic, "format": self.format.word, "partitions": self.partitions}
        return {**super().describe(), **told}


@dataclass(frozen=True)
class Changelog(TopicPublication):
    """The rows of a table with keys as a compacted topic: key, row, tombstone."""

    word: ClassVar[str] = "changelog"

    def problems(self, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        if keys:
            return []
        return [f"{self.table} has no keys, so no row could replace another: publish events of it"]


@dataclass(frozen=True)
class Events(TopicPublication):
    """The rows that come to a table as events, each once."""

    corrections: bool
    history: bool
    retention: str

    word: ClassVar[str] = "events"

    def problems(self, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        return []

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "corrections": self.corrections,
            "history": self.history,
            "retention_ms": int(parse_duration(self.retention) / timedelta(milliseconds=1)),
        }


@dataclass(frozen=True)
class Notification(Publication):
    """A message to somebody for every row that comes to a table, once."""

    name: str
    to: str
    subject: str
    text: str
    every: str

    word: ClassVar[str] = "notification"

    @property
    def target(self) -> str:
        return self.name

    def problems(self, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
        found = [] if keys else [f"{self.table} has no keys, so no row could be told from another"]
        if self.to not in columns:
            found.append(f"to is {self.to!r}, which is no column of {self.table}")
        for text in (self.subject, self.text):
            found += [
                f"{{{name}}} is no column of {self.table}"
                for name in _fields(text)
                if name not in columns
            ]
        return found

    def describe(self) -> dict[str, Any]:
        told = {"name": self.name, "to": self.to, "subject": self.subject, "text": self.text}
        return {**super().describe(), **told, "every": self.every}


# --- declaring ----------------------------------------------------------------------------------
def changelog(
    table: Table | str, *, topic: str = "", format: Format | None = None, partitions: int = 2
) -> Changelog:
    """Publish a table with keys as a compacted topic.

    Args:
        table: a table, or its name.
        topic: ``out.<name>``; by default ``out.<layer>.<table>``.
        format: ``Avro()`` through the registry (the default) or ``Json()``.
        partitions: of the topic, when it is made.
    """
    place = caller(sys._getframe(1))
    name = _name(table, place)
    made = Changelog(name, place, topic or f"{TOPIC_PREFIX}{name}", format or Avro(), partitions)
    raise_if(_topic_problems(made), f"changelog of {name}", place)
    return made


def events(
    table: Table | str,
    *,
    topic: str = "",
    format: Format | None = None,
    partitions: int = 2,
    corrections: bool = True,
    history: bool = True,
    retention: str = "7 days",
) -> Events:
    """Publish the rows that come to a table as events, in transactions.

    Args:
        table: a table, or its name.
        topic: ``out.<name>``; by default ``out.<layer>.<table>``.
        format: ``Avro()`` through the registry (the default) or ``Json()``.
        partitions: of the topic, when it is made.
        corrections: rows that a reprocess changes or takes away are sent too, marked in the header
            ``penstock-change``; False: a row is sent when it first comes, and never again.
        history: the rows that are there when publishing begins are sent too.
        retention: how long the topic keeps events.
    """
    place = caller(sys._getframe(1))
    name = _name(table, place)
    to = topic or f"{TOPIC_PREFIX}{name}"
    made = Events(name, place, to, format or Avro(), partitions, corrections, history, retention)
    problems = _topic_problems(made)
    try:
        parse_duration(retention)
    except ValueError as error:
        problems.append(f"retention: {error}")
    raise_if(problems, f"events of {name}", place)
    return made


def notification(
    table: Table | str, *, name: str, to: str, subject: str, text: str, every: str = IMMEDIATELY
) -> Notification:
    """Tell somebody of every row that comes to a table.

    Args:
        table: a table with keys, or its name.
        name: of the notification: a small word, such as ``big_sale``.
        to: the column that names whom to tell; where they are reached is their own matter
            (``penstock notify``).
        subject, text: what to say; ``{column}`` stands for the row's value.
        every: ``immediately``, or how long messages to one person are collected; what a person has
            chosen goes before it.
    """
    place = caller(sys._getframe(1))
    made = Notification(_name(table, place), place, name, to, subject, text, every)
    raise_if(_notification_problems(made), f"notification {name}", place)
    return made


def _name(table: Table | str, place: Place) -> TableName:
    return parse_name(table, place) if isinstance(table, str) else table.name


def _topic_problems(made: TopicPublication) -> list[str]:
    found = _layer_problems(made)
    if not _TOPIC.fullmatch(made.topic):
        found.append(
            f"topic {made.topic!r}: what is published goes to topics that begin with "
            f"{TOPIC_PREFIX!r} (letters, digits, dots, dashes and underscores)"
        )
    if not isinstance(made.format, Avro | Json):
        found.append(f"format is Avro() or Json(), not {made.format.word}")
    if not 1 <= made.partitions <= _MOST_PARTITIONS:
        found.append(f"partitions is 1 to {_MOST_PARTITIONS}")
    return found


def _layer_problems(made: Publication) -> list[str]:
    fits = made.table.layer in ("silver", "gold")
    return [] if fits else [f"only silver and gold tables are published, not {made.table}"]


def _notification_problems(made: Notification) -> list[str]:
    found = _layer_problems(made)
    if not is_identifier(made.name):
        found.append(f"name {made.name!r} is not a small word (letters, digits, underscores)")
    for text in (made.subject, made.text):
        try:
            found += [
                f"{{{name}}} is not a column's name"
                for name in _fields(text)
                if not is_identifier(name.lstrip("_"))
            ]
        except ValueError as error:
            found.append(f"{text[:40]!r}: {error}")
    if made.every != IMMEDIATELY:
        try:
            parse_duration(made.every)
        except ValueError as error:
            found.append(f"every is {IMMEDIATELY!r} or a length of time: {error}")
    return found


def _fields(text: str) -> list[str]:
    """The columns a text names; formats within formats are nobody's need."""
    return [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
