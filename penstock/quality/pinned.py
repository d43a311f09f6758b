"""One table at one version, as checks see it: the same rows for all of them, whatever goes on.

By default the live table at its newest version. While live is held, it stands still and what it
would show next lies in its revision: then the revision is looked at, so that a table that was put
right can be let go. A candidate is its revision too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.serve.catalog import Catalog, TableRef
from penstock.serve.snapshot import Snapshot, open_snapshot

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["CANDIDATE", "HELD", "LIVE", "PLACE", "Pinned", "pin_candidate", "pin_table"]

LIVE, HELD, CANDIDATE = "live", "held", "candidate"
PLACE = ("topic", "topic_id", "partition", "offset")  # where in Kafka a row came from
_REVISION = re.compile(r"/_revisions/([^/]+)/")


@dataclass(frozen=True)
class Pinned:
    """A snapshot, and in which state the table is that it was taken of."""

    snapshot: Snapshot
    state: str  # live, held, candidate: of the latter two the version is the revision's own
    revision: str  # empty for bronze
    newest: bool = True  # nothing newer was there when it was taken
    keys: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        return f"{self.snapshot.ref.layer}.{self.snapshot.ref.name}"

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def columns(self) -> list[str]:
        return [column.name for column in self.snapshot.columns]

    @property
    def naming(self) -> list[str]:
        """Columns that say which row is meant: its keys, and where it came from."""
        return [name for name in dict.fromkeys((*self.keys, *PLACE)) if name in self.columns]


def pin_table(
    settings: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    table: str,
    *,
    at: str | None = None,
    held: Collection[str] = (),
) -> Pinned:
    """Pin a table where it is asked for.

    Args:
        at: ``candidate``, ``version:17``, or None for what live shows, or would if it is held.
        held: tables whose live stands still.

    Raises:
        UsageError: there is no such table, candidate, version, or no data yet.
    """
    catalog = Catalog.load(settings)
    if at not in (None, CANDIDATE) and not re.fullmatch(r"version:[0-9]{1,18}", at or ""):
        raise UsageError(
            f"--at {at!r} names nothing that can be checked.",
            remedy="Write --at candidate, or --at version:17.",
        )
    layer, _, name = table.partition(".")
    ref = catalog.find([layer, f"{name}@{at}" if at else name])
    revision = str(entries.get(table, {}).get("revision") or "")
    keys = tuple(map(str, entries.get(table, {}).get("keys") or ()))
    if at is None and table in held and revision:
        there = replace(ref, revision=revision)
        if catalog.has_data(there):
            return Pinned(open_snapshot(catalog, there), HELD, revision, keys=keys)
    snapshot = open_snapshot(catalog, ref)
    if at == CANDIDATE:
        return Pinned(snapshot, CANDIDATE, ref.revision, keys=keys)
    newest = at is None or open_snapshot(catalog, replace(ref, at="", version=None)).version
    return Pinned(
        snapshot,
        LIVE,
        _shown(snapshot) or ("" if layer == "bronze" else revision),
        newest is True or newest == snapshot.version,
        keys,
    )


def pin_candidate(
    settings: Settings, table: str, revision: str, version: int, keys: Collection[str]
) -> Pinned:
    """A candidate at a version of its own log, as a comparison pins it."""
    layer, _, name = table.partition(".")
    ref = TableRef(layer, name, version=version, at=CANDIDATE, revision=revision)
    snapshot = open_snapshot(Catalog.load(settings), ref)
    return Pinned(snapshot, CANDIDATE, revision, keys=tuple(keys))


def _shown(snapshot: Snapshot) -> str:
    """Which revision a live version shows: its files lie in that one's folder."""
    found = (_REVISION.search(file) for file in snapshot.files)
    return next((match[1] for match in found if match), "")
