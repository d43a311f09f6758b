"""The schema registry's subjects of our streams: held to FULL_TRANSITIVE, and registered.

A schema that would be refused is refused here first, with the field named and what to do, and
before any other schema of the same call reaches the registry: either all of them are sound, or
nothing changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from penstock.errors import DefinitionError
from penstock.model.contract_changes import breaking_changes
from penstock.model.stream import Stream
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.settings import Settings

__all__ = ["LEVEL", "ensure_subjects"]

# Both ways, with every version there was: after a rollback old code reads what new code wrote.
LEVEL = "FULL_TRANSITIVE"


def ensure_subjects(
    registry: Settings | SchemaRegistry, streams: Iterable[Stream]
) -> dict[str, int]:
    """Register the schema of every Avro stream; returns the schema id by subject.

    Safe to repeat. Raises DefinitionError for a schema that cannot follow those before it, and
    ServiceFailed while the registry does not answer.
    """
    schemas = registry if isinstance(registry, SchemaRegistry) else _open(registry)
    wanted = [stream for stream in streams if stream.contract.format.registered]
    for stream in wanted:
        check_subject(schemas, stream)
    ids = {}
    for stream in wanted:
        subject = stream.contract.subject
        _hold(schemas, subject)
        ids[subject] = schemas.register(subject, stream.contract.schema_json)
        _hold(schemas, subject)  # a registry may have ignored it while there was no such subject
    return ids


def _hold(schemas: SchemaRegistry, subject: str) -> None:
    if schemas.compatibility(subject) != LEVEL:
        schemas.hold_to(subject, LEVEL)


def check_subject(schemas: SchemaRegistry, stream: Stream) -> None:
    """Raise DefinitionError where the stream's schema breaks with one registered before."""
    contract = stream.contract
    found = list(contract.problems())
    for number, text in enumerate(schemas.versions(contract.subject), start=1):
        for problem in breaking_changes(json.loads(text), contract.schema):
            line = f"{problem} (version {number} of {contract.subject})"
            if not any(problem in other for other in found):
                found.append(line)
    if found:
        raise DefinitionError(
            f"{stream.place}: the schema of {stream.name} cannot be registered: "
            f"{'; '.join(found)}.",
            remedy="Nothing was registered. See docs/contracts.md, 'What may change'.",
        )


def _open(settings: Settings) -> SchemaRegistry:
    return SchemaRegistry(settings.registry_url)
