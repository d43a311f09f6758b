"""Protobuf messages as plain mappings and back, by a descriptor known at run time.

What Protobuf cannot tell apart stays so: a scalar without ``optional`` that is not sent is its
zero. An ``optional`` or message field that is not sent is null, or the contract's default.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.model.formats import Protobuf

__all__ = ["decode_message", "descriptor_problems", "encode_message"]

_FIELD = re.compile(r"\s*(?:(optional|repeated)\s+)?([A-Za-z_][\w.]*)\s+(\w+)\s*=\s*(\d+)\s*;?\s*")
_STAMP = "google.protobuf.Timestamp"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def descriptor_problems(format_: Protobuf, columns: list[str]) -> list[str]:
    """What is wrong with a declaration, in words."""
    if bool(format_.descriptor) == bool(format_.fields):
        return ["protobuf needs a descriptor or a list of fields, one of the two"]
    try:
        fields = _message_class(format_).DESCRIPTOR.fields_by_name
    except Exception as error:
        return [f"the descriptor has no sound message {format_.message}: {error}"]
    missing = [name for name in columns if name not in fields]
    if missing:
        return [
            f"message {format_.message} has no {', '.join(missing)}; it has "
            f"{', '.join(fields)} (a field of another name needs an alias)"
        ]
    return []


def decode_message(format_: Protobuf) -> Callable[[bytes], Mapping[str, Any]]:
    """A function from a message's bytes to its fields; raises on bytes that are none."""
    made = _message_class(format_)

    def read(value: bytes) -> Mapping[str, Any]:
        message = made()
        message.ParseFromString(value)
        return _as_mapping(message)

    return read


def encode_message(format_: Protobuf) -> Callable[[Mapping[str, Any]], bytes]:
    """The other way, for producers; takes canonical values."""
    made = _message_class(format_)

    def write(row: Mapping[str, Any]) -> bytes:
        message = made()
        _fill(message, row)
        return bytes(message.SerializeToString(deterministic=True))

    return write


@lru_cache(maxsize=64)
def _message_class(format_: Protobuf) -> Any:
    from google.protobuf import (
        descriptor_pb2,
        descriptor_pool,
        message_factory,
        timestamp_pb2,
    )

    files = descriptor_pb2.FileDescriptorSet()
    if format_.descriptor:
        files.ParseFromString(format_.descriptor)
    else:
        files.file.append(_declared(format_, descriptor_pb2))
    pool = descriptor_pool.DescriptorPool()
    if not any(f.name == "google/protobuf/timestamp.proto" for f in files.file):
        stamp = descriptor_pb2.FileDescriptorProto()
        timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
        pool.Add(stamp)
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(format_.message))


def _declared(format_: Protobuf, pb: Any) -> Any:
    """A file with the one message that the compact declaration describes."""
    package, _, name = format_.message.rpartition(".")
    file = pb.FileDescriptorProto(name=f"{format_.message}.proto", syntax="proto3", package=package)
    message = file.message_type.add(name=name)
    kinds = pb.FieldDescriptorProto
    for line in format_.fields:
        match = _FIELD.fullmatch(line)
        if not match:
            raise ValueError(f"{line!r} is not a field: write 'string ticker = 1'")
        label, kind, field_name, number = match.groups()
        field = message.field.add(name=field_name, number=int(number))
        field.label = kinds.LABEL_REPEATED if label == "repeated" else kinds.LABEL_OPTIONAL
        if kind == _STAMP:
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".{_STAMP}"
            if "google/protobuf/timestamp.proto" not in file.dependency:
                file.dependency.append("google/protobuf/timestamp.proto")
        elif f"TYPE_{kind.upper()}" in kinds.Type.keys() and kind not in ("message", "group"):  # noqa: SIM118
            field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
        else:
            raise ValueError(f"{kind!r} in {line!r} is no scalar type; give a descriptor instead")
        if label == "optional" and kind != _STAMP:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field_name}")
    return file


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _as_mapping(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {str(k): _plain(inner, v) for k, v in value.items()}
        elif _repeated(field):
            found[field.name] = [_plain(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _plain(field, value)
    return found


def _plain(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else int(value)
    if field.message_type is None:
        return value
    if field.message_type.full_name == _STAMP:
        # Its own range is the years 1 to 9999; anything else is refused as a misfit.
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return _as_mapping(value)


def _fill(message: Any, row: Mapping[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        field = fields.get(name)
        if field is None or value is None:
            continue
        if _is_map(field):
            held = getattr(message, name)
            for key, item in value.items():
                held[key] = _wire(field.message_type.fields_by_name["value"], item)
        elif _repeated(field) and field.message_type is not None:
            for item in value:
                _fill_one(getattr(message, name).add(), item)
        elif _repeated(field):
            getattr(message, name).extend(_wire(field, item) for item in value)
        elif field.message_type is not None:
            getattr(message, name).SetInParent()
            _fill_one(getattr(message, name), value)
        else:
            setattr(message, name, _wire(field, value))


def _fill_one(message: Any, value: Any) -> None:
    if isinstance(value, dt.datetime):
        since = value - _EPOCH
        message.seconds = since // dt.timedelta(seconds=1)
        message.nanos = since % dt.timedelta(seconds=1) // dt.timedelta(microseconds=1) * 1000
    else:
        _fill(message, value)


def _wire(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_name[value].number
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.datetime):  # an integer field that holds a time
        epoch = _EPOCH if value.tzinfo else _EPOCH.replace(tzinfo=None)
        return (
            value.isoformat()
            if field.cpp_type == field.CPPTYPE_STRING
            else ((value - epoch) // dt.timedelta(microseconds=1))
        )
    if isinstance(value, dt.date):
        since = value - _EPOCH.date()
        return value.isoformat() if field.cpp_type == field.CPPTYPE_STRING else since.days
    return value
