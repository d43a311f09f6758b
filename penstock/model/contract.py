"""A contract: the schema of a stream and the rules its rows keep.

Rules are plain data. The runtime compiles them into one Spark expression that runs in the same
pass as the decode; a producer can check them before it sends. A row that breaks one goes to
quarantine under the rule's ``name``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.model.duration import parse_duration
from penstock.model.names import is_identifier

__all__ = ["Contract", "Matches", "OneOf", "PlausibleTime", "Range", "Rule", "avro_schema"]


@dataclass(frozen=True)
class Range:
    """``minimum <= column <= maximum``; leave one end out for an open range."""

    column: str
    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None

    @property
    def name(self) -> str:
        return f"range:{self.column}"

    def problems(self) -> list[str]:
        if self.minimum is None and self.maximum is None:
            return [f"range on {self.column} has neither a minimum nor a maximum"]
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            return [f"range on {self.column}: {self.minimum} is above {self.maximum}"]
        return []


@dataclass(frozen=True)
class OneOf:
    """The column holds one of the listed values."""

    column: str
    values: tuple[str | int, ...]

    @property
    def name(self) -> str:
        return f"one_of:{self.column}"

    def problems(self) -> list[str]:
        return [] if self.values else [f"one_of on {self.column} lists no value"]


@dataclass(frozen=True)
class Matches:
    """The whole text of the column matches the regular expression."""

    column: str
    pattern: str

    @property
    def name(self) -> str:
        return f"matches:{self.column}"

    def problems(self) -> list[str]:
        import re

        try:
            re.compile(self.pattern)
        except re.error as error:
            return [f"pattern on {self.column} is not a regular expression: {error}"]
        return []


@dataclass(frozen=True)
class PlausibleTime:
    """The event time lies within ``past`` before and ``future`` after the row's ingest time.

    Measured against the ingest time that bronze stored, so that a replay decides the same. This
    runs before any watermark sees the row: one event from 2038 must not close every window.
    """

    past: str = "7 days"
    future: str = "1 minute"

    column: str = "event_time"

    @property
    def name(self) -> str:
        return "plausible_time"

    @property
    def past_delta(self) -> timedelta:
        return parse_duration(self.past)

    @property
    def future_delta(self) -> timedelta:
        return parse_duration(self.future)

    def problems(self) -> list[str]:
        found = []
        for text in (self.past, self.future):
            try:
                parse_duration(text)
            except ValueError as error:
                found.append(str(error))
        return found


Rule = Range | OneOf | Matches | PlausibleTime


def avro_schema(path: str | Path) -> dict[str, Any]:
    """Read an Avro schema that lies beside the definition."""
    schema = json.loads(Path(path).read_text())
    if not isinstance(schema, dict):
        raise ValueError(f"{path} holds no Avro record schema")
    return schema


@dataclass(frozen=True)
class Contract:
    """Schema plus rules of one stream.

    Args:
        subject: the name under which the schema registry knows the schema.
        schema: the Avro record schema this code reads with.
        rules: what must hold beyond types; checked in order, the first broken one is named.
    """

    subject: str
    schema: Mapping[str, Any]
    rules: Sequence[Rule] = field(default=())

    def problems(self) -> list[str]:
        """Everything wrong with this contract, in words; empty when it is sound."""
        if self.schema.get("type") != "record" or not self.schema.get("fields"):
            return [f"the schema of {self.subject} is not an Avro record with fields"]
        found = [
            f"field {name!r} of {self.subject} is not a valid name: use lower-case letters, "
            "digits and underscores"
            for name in self.columns
            if not is_identifier(name)
        ]
        for rule in self.rules:
            found.extend(rule.problems())
            if rule.column != "event_time" and rule.column not in self.columns:
                found.append(
                    f"a rule names {rule.column!r}, which {self.subject} does not have; "
                    f"its fields are {', '.join(self.columns)}"
                )
        return found

    @property
    def columns(self) -> list[str]:
        return [str(field["name"]) for field in self.schema["fields"]]

    @property
    def schema_json(self) -> str:
        return json.dumps(self.schema, sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """What the manifest and the fingerprint hold of it."""
        return {
            "subject": self.subject,
            "schema": dict(self.schema),
            "rules": [
                {"rule": type(rule).__name__, **{k: _plain(v) for k, v in vars(rule).items()}}
                for rule in self.rules
            ],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
