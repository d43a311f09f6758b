"""Lengths of time as people write them: ``5 seconds``, ``1 minute``, ``2 hours``."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["LONGEST", "micros", "parse_duration"]

LONGEST = timedelta(days=36_525)  # a moment that far off is still one in every clock and database

_UNITS = {
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_SHOWN = 40  # letters of what nobody meant
_DURATION = re.compile(rf"\s*(\d+)\s+({'|'.join(_UNITS)})s?\s*")


def parse_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a length of time: write a whole number and a unit of "
            f"{', '.join(f'{unit}s' for unit in _UNITS)}, for example '5 seconds'"
        )
    count, unit = int(match[1]), _UNITS[match[2]]
    if count > LONGEST // unit:
        raise ValueError(f"{_cut(text)!r} is longer than 100 years")
    return count * unit


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
