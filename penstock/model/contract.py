"""A contract: the schema of a stream and the rules its rows keep.

Rules are plain data. The runtime compiles them into one Spark expression that runs in the same
pass as the decode; a producer can check them before it sends. A row that breaks one goes to
quarantine under the rule's ``name``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.model.contract_types import SchemaFault, Type, record_type
from penstock.model.contract_values import Misfit, default_of
from penstock.model.formats import Avro, Format
from penstock.model.names import is_identifier
from penstock.model.rules import Matches, OneOf, PlausibleTime, Range, Rule

__all__ = ["Contract", "Matches", "OneOf", "PlausibleTime", "Range", "Rule", "avro_schema"]


def avro_schema(path: str | Path) -> dict[str, Any]:
    """Read an Avro schema that lies beside the definition."""
    schema = json.loads(Path(path).read_text())
    if not isinstance(schema, dict):
        raise ValueError(f"{path} holds no Avro record schema")
    return schema


@dataclass(frozen=True)
class Contract:
    """Schema, rules and format of one stream.

    Args:
        subject: the name under which the schema registry knows the schema.
        schema: the Avro record schema this code reads with, whatever the format.
        rules: what must hold beyond types; checked in order, the first broken one is named.
        format: what the bytes are; see `penstock.model.formats`.
    """

    subject: str
    schema: Mapping[str, Any]
    rules: Sequence[Rule] = field(default=())
    format: Format = field(default_factory=Avro)

    def problems(self) -> list[str]:
        """Everything wrong with this contract, in words; empty when it is sound."""
        if self.schema.get("type") != "record" or not self.schema.get("fields"):
            return [f"the schema of {self.subject} is not an Avro record with fields"]
        try:
            kinds = self.kinds
        except SchemaFault as fault:
            return [f"the schema of {self.subject}: {fault}"]
        found = [
            f"field {name!r} of {self.subject} is not a valid name: use lower-case letters, "
            "digits and underscores"
            for name in self.columns
            if not is_identifier(name)
        ]
        found += _default_problems(self.type)
        for rule in self.rules:
            found.extend(rule.problems(kinds.get(rule.column)))
            if rule.column != "event_time" and rule.column not in kinds:
                found.append(
                    f"a rule names {rule.column!r}, which {self.subject} does not have; "
                    f"its fields are {', '.join(self.columns)}"
                )
        # A field with an alias may go by that name on the wire.
        return found + self.format.problems([f.name for f in self.type.fields if not f.aliases])

    @property
    def columns(self) -> list[str]:
        return [str(field["name"]) for field in self.schema["fields"]]

    @cached_property
    def type(self) -> Type:
        """The schema as a tree of types; raises SchemaFault where it is unsound."""
        return record_type(self.schema)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column: ``long``, ``decimal``, ``timestamp`` and so on."""
        return {field.name: field.type.kind for field in self.type.fields}

    @cached_property
    def schema_json(self) -> str:
        return json.dumps(self.schema, sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """What the manifest and the fingerprint hold of it."""
        told = {
            "subject": self.subject,
            "schema": dict(self.schema),
            "rules": [
                {"rule": type(rule).__name__, **{k: _plain(v) for k, v in vars(rule).items()}}
                for rule in self.rules
            ],
        }
        # Avro is what a contract is unless it says otherwise, and so goes without saying.
        return told if isinstance(self.format, Avro) else {**told, **self.format.describe()}


def _default_problems(type_: Type, path: str = "") -> list[str]:
    """Defaults that do not fit their own fields."""
    found = []
    for part in type_.fields:
        at = f"{path}.{part.name}" if path else part.name
        try:
            default_of(part)
        except Misfit as misfit:
            found.append(f"the default of field {at!r} does not fit: {misfit.why}")
        if part.has_default and part.default is None and not part.type.nullable:
            found.append(f"the default of field {at!r} is null, which the field cannot be")
        for inner in part.type.walk():
            if inner.kind == "record":
                found += _default_problems(inner, at)
                break
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
