"""The files of a table and the times in them, brought from version to version by its commits.

Purpose: opening a table costs its whole log and all of its files, some 100 ms after an hour of
small commits; whoever has to look at every batch cannot afford that. How it works: the log is read
once, and from then on the few actions of each commit. What it does not do: go back. A reader that
asks for an older version, for one whose commits are gone or for a far newer one makes it read all
anew.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from penstock.location import Location
from penstock.runtime.delta.log import Action, read_commit
from penstock.runtime.delta.source import adds_at
from penstock.runtime.times import parse_stamp

__all__ = ["Listing"]

_Bounds = tuple[int | None, int | None]  # microseconds; None: not known


_MOST_COMMITS = 200  # read one by one; the log has a checkpoint every hundred


class Listing:
    """The files of one table, by the bounds of one of its columns; for one thread."""

    def __init__(self, path: Location, column: str) -> None:
        self._path = path
        self._column = column
        self._version = -1
        self._files: dict[str, _Bounds] = {}

    def between(self, version: int, start: int | None, end: int | None) -> list[Location]:
        """The files of a version that may have times in ``[start, end)``, in microseconds."""
        self._go_to(version)
        return [
            self._path / name
            for name, (low, high) in self._files.items()
            if (start is None or high is None or high >= start)
            and (end is None or low is None or low < end)
        ]

    def _go_to(self, version: int) -> None:
        known = self._version <= version <= self._version + _MOST_COMMITS
        if self._version < 0 or not known:
            self._read(version)
        try:
            while self._version < version:
                self._apply(read_commit(self._path, self._version + 1))
                self._version += 1
        except FileNotFoundError:  # cleaned up meanwhile
            self._read(version)

    def _read(self, version: int) -> None:
        low, high = f"min.{self._column}", f"max.{self._column}"
        self._files = {
            unquote(add["path"]): (parse_stamp(add.get(low)), parse_stamp(add.get(high)))
            for add in adds_at(self._path, version)
        }
        self._version = version

    def _apply(self, actions: list[Action]) -> None:
        # In two steps: what a commit removes and adds again is there.
        for action in actions:
            if "remove" in action:
                self._files.pop(unquote(action["remove"]["path"]), None)
        for action in actions:
            if "add" in action:
                self._files[unquote(action["add"]["path"])] = self._bounds(action["add"])

    def _bounds(self, add: dict[str, Any]) -> _Bounds:
        told = json.loads(add.get("stats") or "{}")
        low, high = (told.get(bound, {}).get(self._column) for bound in ("minValues", "maxValues"))
        return parse_stamp(low), parse_stamp(high)
