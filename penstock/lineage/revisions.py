"""What is known of revisions: from the registry while it answers, else from what lies on disk.

The registry is a database that may be down; the tables are files and are always there. So every
answer has a form for when nobody can be asked, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.location import Location, scan
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path
from penstock.runtime.registry import Registry, Revision, State

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["UNKNOWN", "UNREGISTERED", "Pin", "Revisions", "folders"]

UNKNOWN = "unknown"  # nobody could be asked
UNREGISTERED = "unregistered"  # the registry has no such revision, yet here are its bytes


@dataclass(frozen=True)
class Pin:
    """The revision of an input that a revision reads; ``sure`` unless nobody could be asked."""

    revision: str
    sure: bool = True


@dataclass(frozen=True)
class Revisions:
    """The registry's revisions by table and name; empty and not ``answered`` when it is down."""

    answered: bool = False
    known: Mapping[tuple[str, str], Revision] = field(default_factory=dict)

    @classmethod
    def load(cls, settings: Settings) -> Revisions:
        import pg8000.native

        registry = Registry(settings)
        try:
            found = registry.revisions(states=(*State.FED, State.RETIRED))
        except (PenstockError, pg8000.native.DatabaseError):
            return cls()  # down, or never set up: the files are there all the same
        finally:
            registry.close()
        return cls.of(found)

    @classmethod
    def of(cls, found: Iterable[Revision]) -> Revisions:
        return cls(True, {(r.table, r.revision): r for r in found})

    def state(self, table: str, revision: str) -> str:
        """In which state a revision is; of a table beside another, that one's name is asked for."""
        if not self.answered:
            return UNKNOWN
        found = self.known.get((table, revision))
        return found.state if found else UNREGISTERED

    def meaning(self, table: str, revision: str) -> dict[str, Any]:
        """What a revision's definition declares; empty where that is not known."""
        found = self.known.get((table, revision))
        told: dict[str, Any] = (found.declared.get("meaning") or {}) if found else {}
        return told

    def pin(
        self,
        warehouse: Location,
        entries: Mapping[str, Mapping[str, Any]],
        table: str,
        revision: str,
        source: str,
    ) -> Pin:
        """Which revision of ``source`` a revision reads; bronze has none."""
        if source.startswith("bronze."):
            return Pin("")
        found = self.known.get((table, revision))
        if found is not None and source in found.inputs:
            return Pin(found.inputs[source])
        held = folders(warehouse, source)
        if len(held) == 1:
            return Pin(held[0])
        # Live tables read live ones: they are promoted together.
        return Pin(str(entries.get(source, {}).get("revision") or ""), sure=False)


def folders(warehouse: Location, table: str) -> list[str]:
    """The revisions of a table that have a folder."""
    try:
        with scan(live_path(warehouse, TableName.parse(table)) / "_revisions") as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
