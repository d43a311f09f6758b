"""The types a contract may use: Avro's, read into a small tree that every format shares.

Avro is the one type language, whatever the bytes on the wire are. Left out on purpose: unions of
several types, types that contain themselves, and times of day; Spark has no good column for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Field", "SchemaFault", "Type", "parse_type", "record_type"]

_PLAIN = ("string", "int", "long", "float", "double", "boolean", "bytes")
_TIMES = {
    "timestamp-millis": ("timestamp", 1000),
    "timestamp-micros": ("timestamp", 1),
    "local-timestamp-millis": ("local_timestamp", 1000),
    "local-timestamp-micros": ("local_timestamp", 1),
}


class SchemaFault(ValueError):
    """A schema that cannot be a contract's; names the field and what to write instead."""


@dataclass(frozen=True)
class Field:
    """One field of a record; ``default`` counts only where ``has_default``."""

    name: str
    type: Type
    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return not self.has_default and not self.type.nullable


@dataclass(frozen=True)
class Type:
    """A type without its spelling: ``kind`` and whatever that kind needs to know."""

    kind: str
    nullable: bool = False
    unit: int = 1  # microseconds that one of a time's integers stands for
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    items: Type | None = None
    fields: tuple[Field, ...] = ()
    name: str = ""
    null_first: bool = False

    def walk(self) -> Iterator[Type]:
        """This type and all within it."""
        yield self
        if self.items is not None:
            yield from self.items.walk()
        for field in self.fields:
            yield from field.type.walk()


def record_type(schema: Mapping[str, Any]) -> Type:
    """The tree of a record schema; raises SchemaFault."""
    if schema.get("type") != "record" or not schema.get("fields"):
        raise SchemaFault("it is not an Avro record with fields")
    return parse_type(schema)


def parse_type(  # noqa: PLR0911 - one line per kind
    schema: Any, path: str = "", known: dict[str, Type | None] | None = None, space: str = ""
) -> Type:
    """The tree of any schema; ``known`` holds the named types met so far, None while open."""
    known = {} if known is None else known
    if isinstance(schema, list):
        return _union(schema, path, known, space)
    if isinstance(schema, str):
        return _reference(schema, path, known, space)
    if not isinstance(schema, Mapping):
        raise SchemaFault(f"{_at(path)} has no type")
    kind = schema.get("type")
    logical = schema.get("logicalType")
    if isinstance(kind, list | Mapping):  # {"type": {"type": ...}}: the inner one counts
        return parse_type(kind, path, known, space)
    if kind in ("record", "enum", "fixed"):
        return _named(schema, str(kind), path, known, space)
    if kind == "array":
        return Type("array", items=parse_type(schema.get("items"), f"{path}[]", known, space))
    if kind == "map":
        return Type("map", items=parse_type(schema.get("values"), f"{path}{{}}", known, space))
    if logical == "decimal" and kind == "bytes":
        return _decimal(schema, path)
    if logical in _TIMES and kind == "long":
        name, unit = _TIMES[str(logical)]
        return Type(name, unit=unit)
    if logical == "date" and kind == "int":
        return Type("date")
    if logical in ("time-millis", "time-micros"):
        raise SchemaFault(f"{_at(path)} is a time of day; keep it as an int, a long or text")
    if logical == "uuid" and kind == "string":
        return Type("uuid")
    return _reference(kind, path, known, space)


def _at(path: str) -> str:
    return f"field {path!r}" if path else "the schema"


def _reference(kind: Any, path: str, known: dict[str, Type | None], space: str) -> Type:
    if kind in _PLAIN:
        return Type(str(kind))
    if kind == "null":
        raise SchemaFault(f'{_at(path)} can only be null; write ["null", <type>]')
    full = kind if not space or "." in str(kind) else f"{space}.{kind}"
    for name in (full, kind):
        if name in known:
            met = known[name]
            if met is None:
                raise SchemaFault(f"{_at(path)} contains itself ({kind}); flatten it")
            return met
    raise SchemaFault(
        f"{_at(path)} is of the unknown type {kind!r}; Avro has {', '.join(_PLAIN)}, record, enum, "
        "fixed, array and map"
    )


def _union(branches: list[Any], path: str, known: dict[str, Type | None], space: str) -> Type:
    others = [branch for branch in branches if branch != "null"]
    if len(others) != 1 or len(branches) > 2:
        raise SchemaFault(
            f'{_at(path)} is a union of several types; only ["null", <type>] becomes a column'
        )
    inner = parse_type(others[0], path, known, space)
    if len(branches) == 1:
        return inner
    return _with(inner, nullable=True, null_first=branches[0] == "null")


def _with(type_: Type, **changed: Any) -> Type:
    return Type(**{**vars(type_), **changed})


def _decimal(schema: Mapping[str, Any], path: str, size: int = 0) -> Type:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        raise SchemaFault(f"{_at(path)} is a decimal without a precision")
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise SchemaFault(
            f"{_at(path)} is a decimal({precision},{scale}); a precision is 1 to 38, and a scale "
            "not more than that"
        )
    return Type("decimal", precision=precision, scale=scale, size=size, name=schema.get("name", ""))


def _named(
    schema: Mapping[str, Any], kind: str, path: str, known: dict[str, Type | None], space: str
) -> Type:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaFault(f"{_at(path)} is a {kind} without a name")
    space = str(schema.get("namespace") or (name.rpartition(".")[0] if "." in name else space))
    full = name if "." in name or not space else f"{space}.{name}"
    if full in known:
        raise SchemaFault(f"{_at(path)} declares {full} again; name the type only after that")
    known[full] = None
    if kind == "record":
        made = Type("record", fields=_fields(schema, path, known, space), name=full)
    elif kind == "enum":
        made = _enum(schema, path, full)
    elif schema.get("logicalType") == "decimal":
        made = _with(_decimal(schema, path, int(schema.get("size", 0))), name=full)
    else:
        size = schema.get("size")
        if type(size) is not int or size < 1:
            raise SchemaFault(f"{_at(path)} is a fixed without a size")
        made = Type("fixed", size=size, name=full)
    known[full] = made
    return made


def _enum(schema: Mapping[str, Any], path: str, full: str) -> Type:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or len(set(symbols)) != len(symbols):
        raise SchemaFault(f"{_at(path)} is an enum without symbols, or with one twice")
    default = schema.get("default")
    if default is not None and default not in symbols:
        raise SchemaFault(f"{_at(path)} is an enum whose default {default!r} is no symbol of it")
    return Type("enum", symbols=tuple(symbols), default_symbol=default, name=full)


def _fields(
    schema: Mapping[str, Any], path: str, known: dict[str, Type | None], space: str
) -> tuple[Field, ...]:
    found: dict[str, Field] = {}
    for entry in schema.get("fields") or ():
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            raise SchemaFault(f"{_at(path)} has a field without a name")
        at = f"{path}.{name}" if path else name
        if name in found:
            raise SchemaFault(f"field {at!r} is declared twice")
        type_ = parse_type(entry.get("type"), at, known, space)
        has_default = "default" in entry
        if has_default and type_.nullable and (entry["default"] is None) != type_.null_first:
            raise SchemaFault(
                f"field {at!r}: Avro wants a union's default to be of its first type; "
                "put that type first"
            )
        aliases = tuple(map(str, entry.get("aliases", ())))
        found[name] = Field(name, type_, has_default, entry.get("default"), aliases)
    if not found:
        raise SchemaFault(f"{_at(path)} is a record without fields")
    return tuple(found.values())
