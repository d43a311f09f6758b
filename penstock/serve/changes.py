"""What one commit of a Delta log changed, as files to read.

The rules are Delta's own for a change feed: a commit that carries ``cdc`` files says with them
exactly which rows changed; without them, files added with ``dataChange`` are inserts and files
removed with it are deletes. A compaction moves rows without changing any (``dataChange`` false),
so it says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.location import Location, bucket_of, scan
from penstock.serve.snapshot import Column, Part, columns_of, local_path

__all__ = ["Commit", "newest_version", "oldest_from", "read_commit"]

_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class Commit:
    """One version of a table: which files hold its changes.

    ``columns`` is set when the commit brought a schema (the first one, and where it changed).
    """

    version: int
    timestamp_ms: int | None
    columns: tuple[Column, ...] | None
    changed: Sequence[Part] = field(default=())
    inserted: Sequence[Part] = field(default=())
    deleted: Sequence[Part] = field(default=())


def newest_version(log: Location) -> int | None:
    """The newest commit in the log, by listing it: for starting, not for every look."""
    return max(_versions(log), default=None)


def oldest_from(log: Location, version: int) -> int | None:
    """The oldest commit at or after ``version`` that is still there."""
    return min((found for found in _versions(log) if found >= version), default=None)


def _versions(log: Location) -> Iterable[int]:
    try:
        with scan(log) as entries:
            matches = [_COMMIT.fullmatch(entry.name) for entry in entries]
    except FileNotFoundError:
        return []
    return [int(match[1]) for match in matches if match]


def read_commit(folder: Location, version: int) -> Commit | None:
    """The commit ``version``, or None while it is not there (whole).

    A commit file appears at once with everything in it, but nobody promises that of every disk:
    one that does not parse is looked at again later.
    """
    try:
        text = (folder / "_delta_log" / f"{version:020}.json").read_text()
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (FileNotFoundError, ValueError):
        return None
    return _commit(folder, version, actions) if actions else None


def _commit(folder: Location, version: int, actions: Sequence[Mapping[str, Any]]) -> Commit:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for action in actions:
        for kind, body in action.items():
            by_kind.setdefault(kind, []).append(body)
    told = by_kind.get("cdc", [])
    added = [] if told else [a for a in by_kind.get("add", []) if a.get("dataChange")]
    removed = [] if told else [r for r in by_kind.get("remove", []) if r.get("dataChange")]
    return Commit(
        version,
        _timestamp(by_kind),
        _columns(by_kind),
        changed=_parts(folder, told),
        inserted=_parts(folder, added),
        deleted=_parts(folder, removed),
    )


def _timestamp(by_kind: Mapping[str, Sequence[Mapping[str, Any]]]) -> int | None:
    for info in by_kind.get("commitInfo", []):
        stamp = info.get("inCommitTimestamp", info.get("timestamp"))
        return None if stamp is None else int(stamp)
    return None


def _columns(by_kind: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Column, ...] | None:
    for metadata in by_kind.get("metaData", []):
        schema = json.loads(metadata["schemaString"])
        return columns_of(schema, metadata.get("partitionColumns", []))
    return None


def _parts(folder: Location, files: Iterable[Mapping[str, Any]]) -> list[Part]:
    """Files grouped by partition values, in the order the commit names them."""
    groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for file in files:
        values = file.get("partitionValues") or {}
        groups.setdefault(tuple(sorted(values.items())), []).append(
            local_path(folder, file["path"])
        )
    return [Part(tuple(paths), dict(key), bucket_of(folder)) for key, paths in groups.items()]
