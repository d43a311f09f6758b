"""Values made to fit a contract's types, or refused with the field named.

One compiled function per schema and form; what it returns is canonical (exact decimals at their
scale, aware UTC times, plain text), whatever the form was. Nothing is guessed: a number is not
text, text is not a number, and what does not fit exactly is refused.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from penstock.model.contract_types import Field, Type

__all__ = ["Form", "Misfit", "default_of", "reader"]

Read = Callable[[Any], Any]


class Form(StrEnum):
    """How values come: as Python's own, as JSON's, or all as text."""

    PYTHON = "python"
    JSON = "json"
    TEXT = "text"


class Misfit(ValueError):
    """A value that does not fit; ``field`` is its path within the row."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.field = field

    def within(self, name: str) -> Misfit:
        return Misfit(self.why, f"{name}.{self.field}" if self.field else name)

    def __str__(self) -> str:
        return f"{self.field}: {self.why}" if self.field else self.why


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOCAL_EPOCH = dt.datetime(1970, 1, 1)
_DAY_ZERO = dt.date(1970, 1, 1).toordinal()
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_LONGEST_NUMBER = 400
_EXACT = Context(prec=60)
_LIMITS = {"int": 2**31, "long": 2**63}


def reader(type_: Type, form: Form) -> Read:
    """A function that takes a value of this form and returns it canonical, or raises Misfit."""
    inner = _MAKERS[type_.kind](type_, form)
    if not type_.nullable:
        return lambda value: inner(value) if value is not None else _refuse("is null")
    if form is Form.TEXT and type_.kind not in ("string", "record", "array", "map"):
        return lambda value: None if value is None or value == "" else inner(value)
    return lambda value: None if value is None else inner(value)


def default_of(field: Field) -> Any:
    """A field's declared default as a canonical value; Avro writes bytes as Latin-1 text."""
    if field.default is None:
        return None
    return _default(field.type, field.default)


def _default(type_: Type, value: Any) -> Any:
    if type_.kind in ("bytes", "fixed", "decimal") and isinstance(value, str):
        try:
            raw = value.encode("latin-1")
        except UnicodeEncodeError:
            raise Misfit("has a default with characters beyond one byte") from None
        if type_.kind != "decimal":
            return reader(type_, Form.PYTHON)(raw)
        whole = Decimal(int.from_bytes(raw, "big", signed=True))
        return reader(type_, Form.PYTHON)(whole.scaleb(-type_.scale, _EXACT))
    if type_.kind == "record" and isinstance(value, Mapping):
        return {
            f.name: _default(f.type, value[f.name]) if f.name in value else default_of(f)
            for f in type_.fields
        }
    return reader(type_, Form.JSON)(value)


def _refuse(why: str) -> Any:
    raise Misfit(why)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- one maker per kind -----------------------------------------------------------------------
def _text(type_: Type, form: Form) -> Read:
    def read(value: Any) -> str:
        if type(value) is not str:
            if form is Form.PYTHON and isinstance(value, uuid.UUID) and type_.kind == "uuid":
                return str(value)
            raise Misfit(f"is {_shown(value)}, not text")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Misfit("is not Unicode text (half a surrogate pair)") from None
        return value

    return read


def _integer(type_: Type, form: Form) -> Read:
    limit = _LIMITS[type_.kind]

    def read(value: Any) -> int:
        if form is Form.TEXT and isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            value = int(value)
        if type(value) is not int:
            raise Misfit(f"is {_shown(value)}, not an integer")
        if not -limit <= value < limit:
            raise Misfit(f"is {_shown(value)}, more than {type_.kind} holds")
        return value

    return read


def _floating(type_: Type, form: Form) -> Read:
    def read(value: Any) -> float:
        if form is Form.TEXT and isinstance(value, str) and _is_number(value.strip()):
            number = float(value)
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = _as_float(value)
        else:
            raise Misfit(f"is {_shown(value)}, not a number")
        if type_.kind == "float":
            number = _single(number)
        infinite = number in (float("inf"), float("-inf"))
        if infinite and not (form is Form.PYTHON and isinstance(value, float)):
            raise Misfit(f"is {_shown(value)}, more than {type_.kind} holds")
        return number

    return read


def _as_float(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Misfit("is more than a double holds") from None


def _single(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        raise Misfit(f"is {number!r}, more than float holds") from None


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


def _boolean(type_: Type, form: Form) -> Read:
    words = {"true": True, "false": False, "1": True, "0": False}

    def read(value: Any) -> bool:
        if form is Form.TEXT and isinstance(value, str) and value.strip() in words:
            return words[value.strip()]
        if type(value) is not bool:
            raise Misfit(f"is {_shown(value)}, not true or false")
        return value

    return read


def _decimal(type_: Type, form: Form) -> Read:
    precision, scale = type_.precision, type_.scale
    step = Decimal(1).scaleb(-scale)

    def read(value: Any) -> Decimal:
        if isinstance(value, str) and form is not Form.PYTHON and _is_number(value.strip()):
            number = Decimal(value.strip())
        elif isinstance(value, Decimal) or type(value) is int:
            number = Decimal(value)
        else:
            raise Misfit(f"is {_shown(value)}, not an exact number")
        if not number.is_finite():
            raise Misfit(f"is {number}, not a number")
        # Looked at before it is rounded: 1E+999999 is short to write and long to expand.
        if number and number.adjusted() >= precision - scale:
            raise Misfit(f"is {_shown(value)}, more than decimal({precision},{scale}) holds")
        exact: Decimal | None
        try:
            exact = number.quantize(step, context=_EXACT) if number else Decimal(0).scaleb(-scale)
        except InvalidOperation:
            exact = None
        if exact is None or exact != number:
            raise Misfit(f"is {_shown(value)}: decimal({precision},{scale}) would lose digits")
        return exact

    return read


def _date(type_: Type, form: Form) -> Read:
    def read(value: Any) -> dt.date:
        try:
            if type(value) is dt.date:
                return value
            if isinstance(value, str) and form is not Form.PYTHON and len(value) <= 12:
                return dt.date.fromisoformat(value.strip())
            if type(value) is int and form is not Form.TEXT:
                return dt.date.fromordinal(_DAY_ZERO + value)
        except (ValueError, OverflowError):
            pass
        raise Misfit(f"is {_shown(value)}, not a date")

    return read


def _timestamp(type_: Type, form: Form) -> Read:
    local = type_.kind == "local_timestamp"
    unit = type_.unit
    epoch = _LOCAL_EPOCH if local else _EPOCH
    what = "a local time without a zone" if local else "a moment with a zone"

    def read(value: Any) -> dt.datetime:
        try:
            if isinstance(value, str) and form is not Form.PYTHON and len(value) <= 40:
                value = dt.datetime.fromisoformat(value.strip())
            elif type(value) is int and form is not Form.TEXT:
                return epoch + dt.timedelta(microseconds=value * unit)
            if isinstance(value, dt.datetime) and (value.tzinfo is None) == local:
                moment = value if local else value.astimezone(dt.UTC)
                return moment.replace(microsecond=moment.microsecond // unit * unit, fold=0)
        except (ValueError, OverflowError):
            pass
        raise Misfit(f"is {_shown(value)}, not {what}")

    return read


def _binary(type_: Type, form: Form) -> Read:
    def read(value: Any) -> bytes:
        if form is not Form.PYTHON and isinstance(value, str):
            try:
                value = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                raise Misfit("is not base64") from None
        if not isinstance(value, bytes):
            raise Misfit(f"is {_shown(value)}, not bytes")
        if type_.kind == "fixed" and len(value) != type_.size:
            raise Misfit(f"has {len(value)} bytes, not {type_.size}")
        return value

    return read


def _enum(type_: Type, form: Form) -> Read:
    def read(value: Any) -> str:
        if isinstance(value, str) and value in type_.symbols:
            return str(value)
        if isinstance(value, str) and type_.default_symbol and form is not Form.PYTHON:
            return type_.default_symbol
        raise Misfit(f"is {_shown(value)}, not one of {', '.join(type_.symbols)}")

    return read


def _array(type_: Type, form: Form) -> Read:
    assert type_.items is not None  # noqa: S101
    item = reader(type_.items, form)

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            if form is not Form.TEXT:
                raise Misfit(f"is {_shown(value)}, not a list")
            value = [value]  # in XML a list of one looks like the one
        found = []
        for number, entry in enumerate(value):
            try:
                found.append(item(entry))
            except Misfit as misfit:
                raise misfit.within(f"[{number}]") from None
        return found

    return read


def _map(type_: Type, form: Form) -> Read:
    assert type_.items is not None  # noqa: S101
    item = reader(type_.items, form)
    name = _text(Type("string"), form)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"is {_shown(value)}, not a map")
        found = {}
        for key, entry in value.items():
            try:
                found[name(key)] = item(entry)
            except Misfit as misfit:
                raise misfit.within(str(key)) from None
        return found

    return read


_ABSENT = object()


def _record(type_: Type, form: Form) -> Read:
    parts = [
        (f.name, f.aliases, reader(f.type, form), f.required, default_of(f)) for f in type_.fields
    ]

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"is {_shown(value)}, not a record")
        found = {}
        for name, aliases, part, required, default in parts:
            given = value.get(name, _ABSENT)
            if given is _ABSENT:
                given = next((value[alias] for alias in aliases if alias in value), _ABSENT)
            if given is _ABSENT:
                if required:
                    raise Misfit("is missing", name)
                found[name] = default
                continue
            try:
                found[name] = part(given)
            except Misfit as misfit:
                raise misfit.within(name) from None
        return found

    return read


_MAKERS: dict[str, Callable[[Type, Form], Read]] = {
    "string": _text,
    "uuid": _text,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "boolean": _boolean,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "local_timestamp": _timestamp,
    "bytes": _binary,
    "fixed": _binary,
    "enum": _enum,
    "array": _array,
    "map": _map,
    "record": _record,
}
