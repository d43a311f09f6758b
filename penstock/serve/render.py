"""Rows as text: JSON, CSV, and what a terminal shows. One spelling per type, in every format.

Times are ISO 8601, with ``Z`` where they are instants; decimals keep all their digits (a JSON
string, because a JSON number would be read back as a float); bytes are base64; a NaN or infinity,
which JSON cannot say, is the string ``NaN``, ``Infinity`` or ``-Infinity``. In CSV a NULL is an
empty field and an empty string is ``""``.
"""

from __future__ import annotations

import base64
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

__all__ = ["cell", "csv_line", "json_array", "plain", "to_json", "unique"]

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$|^$')


def plain(value: object) -> Any:
    """A value as JSON can hold it, without losing anything."""
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    for kinds, spell in _SPELLINGS:
        if isinstance(value, kinds):
            return spell(value)
    return str(value)


def _duration(value: timedelta) -> str:
    return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _moment(value: datetime | date | time) -> str:
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_SPELLINGS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((type(None), bool, int, str), lambda value: value),
    (float, _number),
    (Decimal, lambda value: format(value, "f")),
    ((datetime, date, time), _moment),
    (timedelta, _duration),
    ((bytes, bytearray, memoryview), _base64),
)


def _key(key: object) -> str:
    named = plain(key)
    return named if isinstance(named, str) else json.dumps(named)


def to_json(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def unique(names: Sequence[str]) -> list[str]:
    """Column names for objects: a second ``a`` becomes ``a_1``, so that no value is lost."""
    seen: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 0
        while candidate in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        result.append(candidate)
    return result


def json_array(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """One JSON array of objects, a row a line, piece by piece."""
    names = unique(columns)
    opening = "["
    for row in rows:
        yield f"{opening}\n{to_json(dict(zip(names, row, strict=True)))}"
        opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def csv_line(row: Iterable[object]) -> str:
    return ",".join(map(_csv_field, row)) + "\n"


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    text = _text(value)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def _text(value: object) -> str:
    simple = plain(value)
    if isinstance(simple, str):
        return simple
    return json.dumps(simple, ensure_ascii=False)


def cell(value: object) -> str:
    """A value for a terminal: control characters are spelled out, so data cannot drive it."""
    text = "NULL" if value is None else _text(value)
    if text.isprintable():
        return text
    return "".join(c if unicodedata.category(c)[0] != "C" else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
