"""What may change in a contract's schema: only what old code reads from new writers, and new code
from old ones (FULL compatibility).

Why both ways: after a rollback the old code reads what new producers already wrote. Checked here
before the registry sees a schema, so that the refusal can name the field and say what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.contract_types import Field, SchemaFault, Type, parse_type, record_type

__all__ = ["breaking_changes", "misread_decimals"]

# reader kind -> writer kinds that Avro promotes to it
_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
_WORDS = {"local_timestamp": "local timestamp"}


def breaking_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Everything that keeps ``new`` from standing beside ``old``, each with what to do instead."""
    try:
        fresh = record_type(new)
    except SchemaFault as fault:
        return [str(fault)]
    try:
        before = record_type(old)
    except SchemaFault:  # registered by somebody else, in types we do not use
        return []
    return _records(before, fresh, "")


def misread_decimals(writer: Mapping[str, Any], reader: Type) -> str | None:
    """A decimal whose scale differs between writer and reader: Avro would move the point silently.

    Looks at what both have; anything else is for Avro to resolve.
    """
    theirs = {}
    for entry in writer.get("fields") or ():
        try:
            theirs[entry["name"]] = parse_type(entry["type"])
        except (SchemaFault, KeyError, TypeError):
            continue
    for field in reader.fields:
        names = (field.name, *field.aliases)
        found = next((theirs[name] for name in names if name in theirs), None)
        if found is None or "decimal" not in (found.kind, field.type.kind):
            continue
        if found.kind != field.type.kind or found.scale != field.type.scale:
            return f"{field.name}: is {_say(found)} there and {_say(field.type)} in the contract"
    return None


def _records(old: Type, new: Type, path: str) -> list[str]:
    found: list[str] = []
    old_fields = {field.name: field for field in old.fields}
    new_fields = {field.name: field for field in new.fields}
    taken = {alias: f.name for f in new.fields for alias in f.aliases if alias in old_fields}
    for name, field in new_fields.items():
        at = f"{path}.{name}" if path else name
        if name in old_fields:
            found += _types(old_fields[name].type, field.type, at)
        elif name in taken.values():
            was = next(alias for alias, now in taken.items() if now == name)
            found += _renamed(old_fields[was], field, at)
            found += _types(old_fields[was].type, field.type, at)
        elif not field.has_default:
            found.append(
                f"field {at!r} is new and has no default, so rows written before cannot be read: "
                "give it a default"
            )
    for name, field in old_fields.items():
        at = f"{path}.{name}" if path else name
        if name in new_fields or name in taken:
            continue
        if not field.has_default:
            found.append(
                f"field {at!r} is gone but had no default, so code from before cannot read new "
                "rows: keep it, or give it a default in one version and remove it in a later one; "
                "if it was renamed, keep the old name as an alias of the new one"
            )
    return found


def _renamed(old: Field, new: Field, at: str) -> list[str]:
    """The new code finds the old name by alias; the old code does not know the new name."""
    if old.has_default:
        return []
    return [
        f"field {at!r} was {old.name!r}, which had no default: code from before looks for "
        f"{old.name!r} in new rows; give {old.name!r} a default first, or keep the name"
    ]


def _types(old: Type, new: Type, at: str) -> list[str]:  # noqa: PLR0911 - one line per kind
    if old.nullable != new.nullable:
        way = "may be null now" if new.nullable else "may no longer be null"
        return [
            f"field {at!r} {way}, which "
            f"{'code from before cannot read' if new.nullable else 'rows written before may be'}: "
            "add a field beside it instead"
        ]
    if old.kind != new.kind:
        return [_retyped(old, new, at)]
    if old.kind == "decimal":
        return _decimals(old, new, at)
    if old.kind == "enum":
        return _enums(old, new, at)
    if old.kind == "record":
        return _records(old, new, at)
    if old.items is not None and new.items is not None:
        return _types(old.items, new.items, f"{at}[]" if old.kind == "array" else f"{at}{{}}")
    if old.size != new.size or old.unit != new.unit:
        return [f"field {at!r} changed its size or unit: add a field beside it instead"]
    return []


def _retyped(old: Type, new: Type, at: str) -> str:
    one_way = old.kind in _PROMOTED.get(new.kind, ())
    both = one_way and new.kind in _PROMOTED.get(old.kind, ())
    if both:
        why = "Avro would read it, but what it means would change"
    elif one_way:
        why = f"code from before cannot read {_say(new)} as {_say(old)}"
    else:
        why = f"Avro cannot read one as the other ({_say(old)}, {_say(new)})"
    return (
        f"field {at!r} was {_say(old)} and is {_say(new)}: {why}; add a field beside it, with a "
        "default"
    )


def _decimals(old: Type, new: Type, at: str) -> list[str]:
    if (old.precision, old.scale, old.size) == (new.precision, new.scale, new.size):
        return []
    return [
        f"field {at!r} was {_say(old)} and is {_say(new)}: the same bytes would be another number, "
        "or one too long; add a field beside it, with a default"
    ]


def _enums(old: Type, new: Type, at: str) -> list[str]:
    gone = [s for s in old.symbols if s not in new.symbols]
    fresh = [s for s in new.symbols if s not in old.symbols]
    found = []
    if gone and new.default_symbol is None:
        found.append(
            f"enum {at!r} lost {', '.join(gone)}, which rows written before hold: keep them, or "
            "give the enum a default symbol"
        )
    if fresh and old.default_symbol is None:
        found.append(
            f"enum {at!r} gained {', '.join(fresh)}, which code from before does not know: an enum "
            "can grow only if it had a default symbol; otherwise use a string and OneOf"
        )
    return found


def _say(type_: Type) -> str:
    if type_.kind == "decimal":
        return f"decimal({type_.precision},{type_.scale})"
    return _WORDS.get(type_.kind, type_.kind)
