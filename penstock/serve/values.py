"""Keys as people type them and as the log's statistics bound them, in the type of their column.

A value travels as text (a command line, an address, a cursor) and is compared as what it is. Text
that is no value of the column's type is refused with the form it should have; it is never handed
on for an engine to guess. ``\\N`` is NULL, as in Postgres' COPY; a string that is really ``\\N`` is
typed ``\\\\N``.

Bounds are only used to leave files out, so whatever is doubtful is no bound: statistics round
times to milliseconds, write long decimals as floats and say nothing of NaN.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from penstock.errors import UsageError
from penstock.serve.render import plain
from penstock.serve.snapshot import Column

__all__ = ["NULL", "as_text", "bound", "is_time", "parse", "require_plain"]

NULL = "\\N"
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_TIMES = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")
_EXACT_AS_FLOAT = 15  # decimal digits that survive a way through a float
_ALL_DIGITS = Context(prec=80)  # of the widest decimal; the default rounds to 28
_MILLISECOND = timedelta(milliseconds=1)
_SHOWN = 60  # of a value that is refused


def is_time(column: Column) -> bool:
    return column.type in _TIMES


# --- from text ----------------------------------------------------------------------------
def parse(column: Column, text: str) -> Any:
    """The value ``text`` means in ``column``; None is NULL.

    Raises:
        UsageError: it is no value of the column's type.
    """
    if text == NULL:
        return None
    try:
        text.encode()
        return _reader(column)(text.removeprefix("\\") if text == "\\" + NULL else text)
    except (ValueError, InvalidOperation, OverflowError, binascii.Error):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise UsageError(
            f"{shown!a} is no {_word(column)}, which {column.name} is.",
            remedy=f"Write {column.name} as {_form(column)}; NULL is {NULL}.",
        ) from None


def require_plain(column: Column) -> None:
    """Raise UsageError for a column whose values no cursor could name: structs, lists, maps."""
    _reader(column)


def _reader(column: Column) -> Callable[[str], Any]:
    if column.type in _BITS:
        return lambda text: _whole(text, _BITS[column.type])
    if found := _DECIMAL.fullmatch(column.type):
        return lambda text: _decimal(text, int(found[1]), int(found[2]))
    try:
        return _READERS[column.type]
    except KeyError:
        raise UsageError(
            f"{column.name} is {column.type.split('(')[0].lower()}: nothing to look rows up by.",
            remedy="Use `penstock query`.",
        ) from None


def _whole(text: str, bits: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError(text)
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise OverflowError(text)
    return value


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not re.fullmatch(r"[+-]?(?=\.?[0-9])[0-9]{0,38}(\.[0-9]{0,38})?", text):
        raise ValueError(text)
    value = Decimal(text)
    exact = value.quantize(Decimal(1).scaleb(-scale), context=_ALL_DIGITS)
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(text)
    return exact


def _float(text: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9.]+([eE][+-]?[0-9]{1,3})?|NaN|Infinity)", text):
        raise ValueError(text)
    return float(text)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _instant(text: str) -> datetime:
    value = _moment(text)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _local(text: str) -> datetime:
    value = _moment(text)
    if value.tzinfo is not None:
        raise ValueError(text)
    return value


def _moment(text: str) -> datetime:
    if _FINER_THAN_MICROSECONDS.search(text):
        raise ValueError(text)  # cut off, it would be another moment
    return datetime.fromisoformat(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "VARCHAR": str,
    "FLOAT": _float,
    "DOUBLE": _float,
    "BOOLEAN": _boolean,
    "DATE": date.fromisoformat,
    "TIMESTAMP WITH TIME ZONE": _instant,
    "TIMESTAMP": _local,
    "BLOB": lambda text: base64.b64decode(text, validate=True),
}
_FORMS = {
    "VARCHAR": ("text", "UTF-8 text"),
    "FLOAT": ("number", "1.5"),
    "DOUBLE": ("number", "1.5"),
    "BOOLEAN": ("truth value", "true or false"),
    "DATE": ("date", "2026-11-01"),
    "TIMESTAMP WITH TIME ZONE": ("time", "2026-11-01T10:00:00Z (in an address, + is %2B)"),
    "TIMESTAMP": ("time without a zone", "2026-11-01T10:00:00"),
    "BLOB": ("binary value", "base64"),
}


def _word(column: Column) -> str:
    if column.type in _BITS:
        return f"whole number of {_BITS[column.type]} bits"
    return _FORMS.get(column.type, (column.type.lower(), ""))[0]


def _form(column: Column) -> str:
    if column.type in _BITS:
        return "digits such as 42"
    if found := _DECIMAL.fullmatch(column.type):
        return f"a number with at most {found[1]} digits, {found[2]} of them behind the point"
    return _FORMS[column.type][1]


def as_text(value: Any) -> str:
    """What `parse` reads back as ``value``."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    text = str(plain(value))
    return "\\" + NULL if text == NULL else text


# --- from statistics ----------------------------------------------------------------------
def bound(column: Column, raw: Any, *, up: bool) -> Any:
    """A bound of the log's statistics as `parse` would give it, or None where it is not safe.

    Args:
        raw: from JSON, numbers with a point as Decimal.
        up: it is the upper one.
    """
    plain_type = str if column.type == "VARCHAR" else int if column.type in _BITS else None
    if raw is None or isinstance(raw, bool):
        return None
    if plain_type is not None:
        return raw if isinstance(raw, plain_type) else None
    try:
        if column.type in _TIMES:
            return _time_bound(column, str(raw), up=up)
        found = _DECIMAL.fullmatch(column.type)
        return _decimal_bound(Decimal(str(raw)), int(found[1]), up=up) if found else None
    except (ValueError, InvalidOperation, OverflowError):
        return None


def _time_bound(column: Column, raw: str, *, up: bool) -> Any:
    if column.type == "DATE":
        return date.fromisoformat(raw)
    value = datetime.fromisoformat(raw)
    # Some writers cut the upper bound to milliseconds too: then the last rows lie above it.
    value = value + _MILLISECOND if up else value
    aware = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return aware if column.type != "TIMESTAMP" else aware.replace(tzinfo=None)


def _decimal_bound(value: Decimal, precision: int, *, up: bool) -> Decimal:
    if precision <= _EXACT_AS_FLOAT:
        return value
    slack = abs(value) * Decimal("1e-14")
    return value + slack if up else value - slack
