"""Rules: what must hold of a row beyond its types.

Rules are plain data. The runtime compiles them into Spark expressions, a producer checks them in
Python before it sends, and both come to the same verdict. A null in an optional field breaks
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from penstock.model.duration import parse_duration

__all__ = ["Matches", "OneOf", "PlausibleTime", "Range", "Rule"]

_NUMBERS = ("int", "long", "float", "double", "decimal")
_WHOLE = ("int", "long")
_TEXTS = ("string", "enum", "uuid")
# Where Java and Python read a pattern differently, or only one of them reads it at all.
_UNSHARED = re.compile(r"\(\?P|\(\?#|\(\?[a-z]*[aLux]|\\Z|\{,|&&|\[[^\]\\]*\[")


@dataclass(frozen=True)
class Range:
    """``minimum <= column <= maximum``; leave one end out for an open range."""

    column: str
    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None

    @property
    def name(self) -> str:
        return f"range:{self.column}"

    def problems(self, kind: str | None = None) -> list[str]:
        found = []
        if self.minimum is None and self.maximum is None:
            found.append(f"range on {self.column} has neither a minimum nor a maximum")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            found.append(f"range on {self.column}: {self.minimum} is above {self.maximum}")
        if kind is not None and kind not in _NUMBERS:
            found.append(f"range on {self.column}, which is a {kind} and not a number")
        for bound in (self.minimum, self.maximum):
            if isinstance(bound, int) and not -(2**63) <= bound < 2**63:
                found.append(f"range on {self.column}: {bound} is more than a long holds")
        return found

    def holds(self, value: Any) -> bool:
        """Not a number counts as above every number, as it does in SQL."""
        low, high = self.minimum, self.maximum
        if isinstance(value, float):
            if value != value:  # noqa: PLR0124 - that is what NaN is
                return high is None
            low = None if low is None else float(low)  # type: ignore[assignment]
            high = None if high is None else float(high)  # type: ignore[assignment]
        return (low is None or value >= low) and (high is None or value <= high)


@dataclass(frozen=True)
class OneOf:
    """The column holds one of the listed values."""

    column: str
    values: tuple[str | int, ...]

    @property
    def name(self) -> str:
        return f"one_of:{self.column}"

    def problems(self, kind: str | None = None) -> list[str]:
        if not self.values:
            return [f"one_of on {self.column} lists no value"]
        if kind is None:
            return []
        wanted: type = str if kind in _TEXTS else int
        if kind not in (*_TEXTS, *_WHOLE):
            return [f"one_of on {self.column}, which is a {kind}: it works on text and on integers"]
        if any(type(value) is not wanted for value in self.values):
            return [f"one_of on {self.column} lists values that are no {kind}"]
        return []

    def holds(self, value: Any) -> bool:
        return value in self.values


@dataclass(frozen=True)
class Matches:
    """The whole text of the column matches the regular expression.

    Written in what Java's and Python's expressions have in common; classes such as ``\\d`` and
    ``\\w`` are of ASCII, and only a line feed ends a line.
    """

    column: str
    pattern: str

    @property
    def name(self) -> str:
        return f"matches:{self.column}"

    def problems(self, kind: str | None = None) -> list[str]:
        found = []
        try:
            re.compile(self.pattern)
        except re.error as error:
            return [f"pattern on {self.column} is not a regular expression: {error}"]
        unshared = _UNSHARED.search(self.pattern)
        if unshared:
            found.append(
                f"pattern on {self.column} uses {unshared[0]!r}, which Spark and Python read "
                "differently; write it another way (the whole text is matched anyway)"
            )
        if kind is not None and kind not in _TEXTS:
            found.append(f"matches on {self.column}, which is a {kind} and not text")
        return found

    def holds(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value, re.ASCII) is not None


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

    def problems(self, kind: str | None = None) -> list[str]:
        found = []
        for text in (self.past, self.future):
            try:
                parse_duration(text)
            except ValueError as error:
                found.append(str(error))
        return found


Rule = Range | OneOf | Matches | PlausibleTime
