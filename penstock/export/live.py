"""A live table as an export sees it: one pinned version, and which revision that shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.location import Location, near
from penstock.serve.catalog import Catalog, TableRef
from penstock.serve.snapshot import Column, Part, open_snapshot

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Live", "keys_of", "open_live"]

_REVISIONS = "_revisions"


@dataclass(frozen=True)
class Live:
    """One version of a live table."""

    table: str
    folder: Location
    version: int
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    table_id: str
    revision: str
    keys: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        return self.table.partition(".")[0]

    @property
    def name(self) -> str:
        return self.table.partition(".")[2]


def open_live(catalog: Catalog, ref: TableRef, keys: tuple[str, ...]) -> Live:
    """Pin the newest version of a table.

    Raises:
        UsageError: it has no data yet.
        QueryRefused: it uses a Delta feature that would be misread.
    """
    found = open_snapshot(catalog, ref)
    folder = catalog.folder(ref)
    return Live(
        ref.label,
        folder,
        found.version,
        found.columns,
        found.parts,
        found.table_id,
        _revision(folder, found.files),
        keys,
    )


def _revision(folder: Location, files: list[str]) -> str:
    """The revision a version shows: the folder its files are in. An empty table shows none."""
    depth = len(near(folder).parts)
    names = Counter(
        parts[depth + 1]
        for parts in (Path(file).parts for file in files)
        if len(parts) > depth + 1 and parts[depth] == _REVISIONS
    )
    return names.most_common(1)[0][0] if names else ""


def keys_of(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The declared keys of each table, from the manifest; nothing where there is none."""
    import json

    try:
        tables = json.loads(settings.manifest.read_text())["tables"]
    except (FileNotFoundError, ValueError, KeyError):
        return {}
    return {entry["name"]: tuple(entry.get("keys") or ()) for entry in tables}
