"""A row held against its contract in Python, before it is sent.

Comes to the same verdict on rules as the runtime's Spark expressions do; a test holds the two
together on generated rows.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.model.contract import Contract
from penstock.model.contract_time import LocalTime
from penstock.model.contract_types import record_type
from penstock.model.contract_values import Form, Misfit, Read, reader
from penstock.model.rules import PlausibleTime, Rule
from penstock.model.stream import EventTime, Stream

__all__ = ["Problem", "Verdict", "broken_rules", "check", "event_time_of", "fit"]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a row: where, which rule, and the value that broke it."""

    field: str
    rule: str
    value: Any
    why: str

    def __str__(self) -> str:
        shown = repr(self.value)
        return f"{self.field} = {shown[:80]}: {self.why} ({self.rule})"


@dataclass(frozen=True)
class Verdict:
    """The row in canonical values, or what is wrong with it."""

    row: dict[str, Any] | None
    problems: list[Problem]


def check(
    contract: Contract,
    row: Mapping[str, Any],
    event_time: dt.datetime | None,
    now: dt.datetime,
) -> list[Problem]:
    """Everything wrong with the row; empty when it may be sent.

    Args:
        event_time: the row's event time, as its stream takes it.
        now: what ingest will stamp, as near as a producer can tell.
    """
    verdict = fit(contract, row)
    return verdict.problems or broken_rules(contract, verdict.row or {}, event_time, now)


def fit(contract: Contract, row: Mapping[str, Any]) -> Verdict:
    """The row's values made canonical by type; unknown fields are refused, they would be lost."""
    known = {name for f in contract.type.fields for name in (f.name, *f.aliases)}
    extra = sorted(str(name) for name in row if name not in known)
    problems = [
        Problem(name, "type", row.get(name), f"{contract.subject} has no such field")
        for name in extra
    ]
    try:
        fitted = _reader(contract.schema_json)(row)
    except Misfit as misfit:
        value: Any = row
        for part in misfit.field.split("."):
            value = value.get(part) if isinstance(value, Mapping) else value
        return Verdict(None, [*problems, Problem(misfit.field, "type", value, misfit.why)])
    return Verdict(None if problems else fitted, problems)


def event_time_of(
    stream: Stream, row: Mapping[str, Any], at: dt.datetime, now: dt.datetime
) -> dt.datetime | None:
    """What the runtime will take as the event time of a row of canonical values."""
    if isinstance(stream.event_time, LocalTime):
        return stream.event_time.of(row)
    if stream.event_time is EventTime.RECORD:
        return at.replace(microsecond=at.microsecond // 1000 * 1000)  # Kafka keeps milliseconds
    if isinstance(stream.event_time, EventTime):
        return now
    found: dt.datetime | None = row[stream.event_time]
    return found


def broken_rules(
    contract: Contract, row: Mapping[str, Any], event_time: dt.datetime | None, now: dt.datetime
) -> list[Problem]:
    """The rules that a row of canonical values breaks, in their order."""
    if event_time is None:
        return [Problem("event_time", "event_time", None, "there is none")]
    found = []
    for rule in contract.rules:
        if isinstance(rule, PlausibleTime):
            if not now - rule.past_delta <= event_time <= now + rule.future_delta:
                why = f"is not within {rule.past} before and {rule.future} after now"
                found.append(Problem("event_time", rule.name, event_time.isoformat(), why))
            continue
        value = row[rule.column]
        if value is not None and not rule.holds(value):
            found.append(Problem(rule.column, rule.name, value, _why(rule)))
    return found


def _why(rule: Rule) -> str:
    told = {name: value for name, value in vars(rule).items() if name != "column"}
    return "breaks " + ", ".join(f"{k} {v}" for k, v in told.items() if v is not None)


@lru_cache(maxsize=64)
def _reader(schema_json: str) -> Read:
    return reader(record_type(json.loads(schema_json)), Form.PYTHON)
