"""What a publication sends, kept in memory: no broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.publish.declared import Published

__all__ = ["MemoryOutlet"]


class MemoryOutlet:
    """Everything that was sent and noted, in transactions that always succeed."""

    opened, openings = True, 1

    def __init__(self) -> None:
        self.topics = self
        self.notes: dict[str, bytes] = {}
        self.sent: list[tuple[bytes | None, bytes | None]] = []
        self.places: list[tuple[str, dict[str, bytes]]] = []  # of each: its topic, its headers

    def open(self) -> None:
        pass

    def ensure(self, published: Published) -> str:
        return "topic-id"

    def note(self, name: str) -> bytes | None:
        return self.notes.get(name)

    planned = note

    @contextmanager
    def transaction(self) -> Iterator[MemoryOutlet]:
        yield self

    def send(self, topic: str, key: Any, value: Any, headers: Any = ()) -> None:
        self.sent.append((key, value))
        self.places.append((topic, dict(headers)))

    def keep(self, name: str, value: bytes | None) -> None:
        if value is None:
            self.notes.pop(name, None)
        else:
            self.notes[name] = value
