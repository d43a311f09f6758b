"""How far each topic has been published: records in a topic of their own.

They are written in the same transaction as what they speak of, so both are there or neither is,
whatever dies when. Unlike offsets of a group they never expire, and they can say more than a
number: docs/decisions/0022-positions-of-publishing.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.publish.topics import read_whole
from penstock.serve.snapshot import Column

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["NOTHING", "POSITIONS", "Position", "read_notes"]

POSITIONS = "penstock-publish-positions"
NOTHING = -1  # the version before the first


@dataclass(frozen=True)
class Position:
    """All changes up to ``version`` are published, and ``done`` of those up to ``until``."""

    version: int
    columns: tuple[Column, ...]  # of that version
    keys: tuple[str, ...]
    topic_id: str
    mark: str  # of the commit of that version: another one is another table
    until: int | None = None
    done: int = 0
    records: int = 0  # sent since the topic was begun
    at: str = ""
    format: str = ""  # of the topic's keys and values; nothing in positions from before it was kept

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Position:
        told: dict[str, Any] = json.loads(text)
        columns = tuple(Column(**column) for column in told["columns"])
        return cls(**{**told, "columns": columns, "keys": tuple(told["keys"])})


def read_notes(settings: Settings) -> dict[str, bytes]:
    """Everything that was noted and not taken back, by name.

    Raises:
        ServiceFailed: the broker does not give it, or there is none yet.
    """
    notes: dict[str, bytes] = {}
    for message in read_whole(settings, POSITIONS):
        key, value = message.key(), message.value()
        if key is not None and value is None:
            notes.pop(key.decode(), None)
        elif key is not None and value is not None:
            notes[key.decode()] = value
    return notes
