"""Schemas of published topics in the registry: what readers have must go on working."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.contract_changes import breaking_changes
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.ingest.subjects import LEVEL

__all__ = ["ensure_schema"]


def ensure_schema(registry: SchemaRegistry, subject: str, schema: Mapping[str, Any]) -> int:
    """Register a schema, or find it registered; its id.

    Raises:
        DefinitionError: it breaks with one that readers may have.
        ServiceFailed: the registry does not answer.
    """
    faults = [
        problem
        for text in registry.versions(subject)
        for problem in breaking_changes(json.loads(text), schema)
    ]
    if faults:
        raise DefinitionError(
            f"{subject} cannot take the columns the table has now: "
            f"{'; '.join(dict.fromkeys(faults))}.",
            remedy="Publish the table to another topic, or with format=Json().",
        )
    number = registry.register(subject, json.dumps(schema))
    if registry.compatibility(subject) != LEVEL:
        registry.hold_to(subject, LEVEL)
    return number
