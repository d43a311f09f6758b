"""Declaring tables: ``stream`` for a topic kept as bronze, ``table`` for everything above it.

A declaration remembers the file and line it stands on; everything that is wrong with it is said
at once, with that place and with what to write instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.contract import Contract
from penstock.model.kinds import Kind, Window
from penstock.model.names import TableName, is_identifier

__all__ = ["EventTime", "Place", "Stream", "Table", "stream", "table"]

# A transform takes one DataFrame per input and returns one. Typed loosely on purpose: the model
# knows no Spark.
Transform = Callable[..., Any]


class EventTime(StrEnum):
    """Where a stream's event time comes from."""

    RECORD = "record"  # the record's CreateTime, set by its producer
    INGEST = "ingest"  # the time bronze stored: processing time that a replay repeats


@dataclass(frozen=True)
class Place:
    """Where in the author's code something is declared."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


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


@dataclass(frozen=True)
class Table:
    """One definition: a pure function and what it means. Calling it calls the function."""

    name: TableName
    inputs: Mapping[str, TableName]
    kind: Kind
    transform: Transform
    keys: tuple[str, ...]
    owner: str
    doc: str
    place: Place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.transform(*args, **kwargs)

    def describe(self) -> dict[str, Any]:
        """The declared meaning, without the code: part of fingerprint and manifest."""
        return {
            "name": str(self.name),
            "inputs": {argument: str(name) for argument, name in self.inputs.items()},
            "keys": list(self.keys),
            **self.kind.describe(),
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
    place = _caller(sys._getframe(1))
    table_name = _table_name(name, place)
    problems = list(contract.problems())
    if table_name.layer != "bronze":
        problems.append(f"a stream is kept in the bronze layer: name it bronze.{table_name.name}")
    if not isinstance(event_time, EventTime) and event_time not in contract.columns:
        problems.append(
            f"event_time is {event_time!r}, which is neither an EventTime nor a field; "
            f"the fields are {', '.join(contract.columns)}"
        )
    _raise_if(problems, f"stream {name}", place)
    return Stream(table_name, topic, contract, event_time, owner, doc, place)


def table(
    name: str,
    *,
    inputs: Mapping[str, Stream | Table | str],
    kind: Kind,
    keys: tuple[str, ...] = (),
    owner: str = "",
) -> Callable[[Transform], Table]:
    """Declare a table on a pure function of DataFrames.

    Args:
        name: ``silver.<name>`` or ``gold.<name>``.
        inputs: argument of the function -> what it reads (a stream, a table, or its name).
        kind: ``Rows()``, ``tumbling(...)`` or ``hopping(...)``.
        keys: the columns that identify a row.

    The function never sees mode, clock, path or session: the same object runs as a stream and in
    batch.
    """
    place = _caller(sys._getframe(1))

    def declare(transform: Transform) -> Table:
        table_name = _table_name(name, place)
        sources = {argument: _input_name(given, place) for argument, given in inputs.items()}
        declared = Table(
            name=table_name,
            inputs=sources,
            kind=kind,
            transform=transform,
            keys=tuple(keys),
            owner=owner,
            doc=(transform.__doc__ or "").strip(),
            place=place,
        )
        _raise_if(_table_problems(declared), f"table {name}", place)
        return declared

    return declare


def _table_problems(declared: Table) -> list[str]:
    found = list(declared.kind.problems())
    if declared.name.layer not in ("silver", "gold"):
        found.append(f"tables live in silver or gold, not in {declared.name.layer}")
    if not declared.inputs:
        found.append("it reads nothing: give inputs={'argument': what it reads}")
    code = getattr(declared.transform, "__code__", None)
    arguments = list(code.co_varnames[: code.co_argcount]) if code else []
    if code and arguments != list(declared.inputs):
        found.append(
            f"the function takes ({', '.join(arguments)}) but inputs names "
            f"({', '.join(declared.inputs)}): make them the same, in the same order"
        )
    found.extend(
        f"key {key!r} is not a column name" for key in declared.keys if not is_identifier(key)
    )
    if isinstance(declared.kind, Window) and "window_start" not in declared.keys:
        found.append("a window table has window_start among its keys")
    if len(declared.inputs) > 1:
        found.append("rows and window tables read exactly one input")
    return found


def _input_name(given: Stream | Table | str, place: Place) -> TableName:
    return _table_name(given, place) if isinstance(given, str) else given.name


def _table_name(text: str, place: Place) -> TableName:
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise DefinitionError(f"{place}: {error}.") from None


def _raise_if(problems: list[str], what: str, place: Place) -> None:
    if problems:
        raise DefinitionError(f"{place}: {what}: {'; '.join(problems)}.")


def _caller(frame: FrameType) -> Place:
    path = Path(frame.f_code.co_filename)
    # A path relative to the project reads better than this machine's; keep the last four parts.
    return Place("/".join(path.parts[-3:]), frame.f_lineno)
