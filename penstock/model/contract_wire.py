"""From a message's bytes to a row that fits its contract, for the formats Python decodes.

Pure functions without Spark, so that a worker imports little. Nothing escapes: a message is a row,
a reason why not, or nothing at all (skipped).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any
from xml.parsers import expat

from penstock.model.contract_protobuf import decode_message
from penstock.model.contract_types import Type, record_type
from penstock.model.contract_values import Form, Misfit, reader
from penstock.model.formats import Custom, Debezium, Format, Json, Protobuf, Xml

__all__ = ["Message", "message_reader"]

_DEEPEST = 100
_LONGEST_REASON = 300
_UNAVAILABLE = "__debezium_unavailable_value"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Message:
    """What became of one message; ``change`` only of a Debezium one."""

    row: dict[str, Any] | None = None
    error: str | None = None
    skipped: bool = False
    change: dict[str, Any] | None = None


ReadMessage = Callable[[bytes | None], Message]


def message_reader(schema_json: str, format_: Format) -> ReadMessage:
    """A function that never raises. Compiled once per process where that is possible."""
    if isinstance(format_, Custom):  # a function shipped by value is another one each time
        return _reader(schema_json, format_)
    return _cached(schema_json, format_)


@lru_cache(maxsize=64)
def _cached(schema_json: str, format_: Format) -> ReadMessage:
    return _reader(schema_json, format_)


def _reader(schema_json: str, format_: Format) -> ReadMessage:
    type_ = record_type(json.loads(schema_json))
    read = _debezium(type_) if isinstance(format_, Debezium) else _plain(type_, format_)

    def guarded(value: bytes | None) -> Message:
        try:
            return read(value)
        except Misfit as misfit:
            return Message(error=_text(str(misfit)))
        except RecursionError:
            return Message(error="is nested too deep")
        except Exception as error:
            return Message(error=_text(f"{type(error).__name__}: {error}"))

    return guarded


def _text(reason: str) -> str:
    """A reason that can be written down, whatever characters the message gave it."""
    return reason[:_LONGEST_REASON].encode("utf-8", "replace").decode()


def _plain(type_: Type, format_: Format) -> ReadMessage:
    form = Form.TEXT if isinstance(format_, Xml) else Form.JSON
    parse = _parser(format_)
    fit = reader(type_, form)

    def read(value: bytes | None) -> Message:
        return Message() if value is None else Message(row=fit(parse(value)))

    return read


def _parser(format_: Format) -> Callable[[bytes], Any]:
    if isinstance(format_, Json):
        return parse_json
    if isinstance(format_, Xml):
        return lambda value: parse_xml(value, format_.row_tag)
    if isinstance(format_, Protobuf):
        return decode_message(format_)
    if isinstance(format_, Custom):
        return lambda value: format_.decoder(bytes(value))
    raise TypeError(f"{format_.word} is not decoded in Python")


# --- JSON -------------------------------------------------------------------------------------
def _no_constant(text: str) -> Any:
    raise Misfit(f"holds {text}, which is not JSON")


_JSON = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)


def parse_json(value: bytes) -> Any:
    """One JSON object and nothing after it; numbers stay exact."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Misfit(f"is not UTF-8 at byte {error.start}") from None
    try:
        found = _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise Misfit(f"is not JSON: {error.msg} at character {error.pos}") from None
    if not isinstance(found, dict):
        raise Misfit("is not a JSON object")
    return found


# --- XML --------------------------------------------------------------------------------------
class _XmlRow:
    """Gathers the one row of a document, bounded in depth, with every DOCTYPE refused."""

    def __init__(self, row_tag: str) -> None:
        self.row_tag = row_tag
        self.row: Any = None
        # attributes, child elements, text, whether within the row
        self._stack: list[tuple[dict[str, Any], dict[str, Any], list[str], bool]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._stack) >= _DEEPEST:
            raise Misfit("is nested too deep")
        inside = bool(self._stack) and self._stack[-1][3]
        starts = tag == self.row_tag and not inside
        if starts and self.row is not None:
            raise Misfit(f"has more than one <{self.row_tag}>")
        self._stack.append((attributes, {}, [], inside or starts))

    def end(self, tag: str) -> None:
        attributes, children, texts, inside = self._stack.pop()
        if not inside:
            return
        fields = {**attributes, **children}
        value: Any = fields or "".join(texts)
        if not self._stack or not self._stack[-1][3]:
            self.row = fields
            return
        siblings = self._stack[-1][1]
        if tag not in siblings:
            siblings[tag] = value
        elif isinstance(siblings[tag], list):
            siblings[tag].append(value)
        else:
            siblings[tag] = [siblings[tag], value]

    def text(self, text: str) -> None:
        if self._stack:
            self._stack[-1][2].append(text)

    def doctype(self, *_: Any) -> None:
        raise Misfit("has a DOCTYPE, which is refused")


def parse_xml(value: bytes, row_tag: str) -> Mapping[str, Any]:
    """The fields of the document's one row, all text."""
    gathered = _XmlRow(row_tag)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = gathered.start
    parser.EndElementHandler = gathered.end
    parser.CharacterDataHandler = gathered.text
    parser.StartDoctypeDeclHandler = gathered.doctype
    try:
        parser.Parse(value, True)
    except expat.ExpatError as error:
        raise Misfit(f"is not XML: {error}") from None
    if gathered.row is None:
        raise Misfit(f"has no <{row_tag}>")
    return dict(gathered.row)


# --- Debezium ---------------------------------------------------------------------------------
def _debezium(type_: Type) -> ReadMessage:
    fit = reader(type_, Form.JSON)
    nothing = {field.name: None for field in type_.fields}

    def read(value: bytes | None) -> Message:
        if value is None:  # a tombstone: tells Kafka's compaction, not us
            return Message(skipped=True)
        event = parse_json(value)
        op = event.get("op")
        if op == "m":
            return Message(skipped=True)
        if op not in ("c", "u", "d", "r", "t"):
            raise Misfit(f"is {op!r}, which is no change Debezium knows", "op")
        change = _change(op, event.get("source"))
        if op == "t":
            return Message(row=nothing, change=change)
        side = "before" if op == "d" else "after"
        row = event.get(side)
        if not isinstance(row, dict):
            hint = "; set REPLICA IDENTITY FULL on the source table" if op == "d" else ""
            raise Misfit(f"is missing from an event of op {op}{hint}", side)
        return Message(row=fit(_available(row, event.get("before"))), change=change)

    return read


def _change(op: str, source: Any) -> dict[str, Any]:
    if not isinstance(source, dict):
        raise Misfit("is missing", "source")
    micros = source.get("ts_us")
    if type(micros) is not int:
        millis = source.get("ts_ms")
        if type(millis) is not int:
            raise Misfit("has neither ts_us nor ts_ms", "source")
        micros = millis * 1000
    lsn = source.get("lsn")
    if lsn is not None and (type(lsn) is not int or not 0 <= lsn < 2**63):
        raise Misfit(f"is {lsn!r}, not a position in the log", "source.lsn")
    try:
        committed = _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise Misfit(f"is {micros}, beyond the year 9999", "source.ts_us") from None
    return {"op": op, "lsn": lsn, "committed_at": committed}


def _available(row: dict[str, Any], before: Any) -> dict[str, Any]:
    """Long values that a change did not touch are not in the log; ``before`` has them in full."""
    absent = [name for name, value in row.items() if value == _UNAVAILABLE]
    if not absent:
        return row
    filled = dict(row)
    for name in absent:
        if not isinstance(before, dict) or before.get(name, _UNAVAILABLE) == _UNAVAILABLE:
            raise Misfit("was not in the log; set REPLICA IDENTITY FULL", name)
        filled[name] = before[name]
    return filled
