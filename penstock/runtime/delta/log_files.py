"""What lies in the folder of a log: commits and checkpoints, and how far back it goes.

A log that was cleaned up begins with a checkpoint. The oldest version that can be read is 0 while
the first commit is there, afterwards that of the oldest checkpoint from which every commit is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock.location import Location, readable, scan

if TYPE_CHECKING:
    from penstock.runtime.delta.log import Action

__all__ = ["LogFiles", "checkpoint_file", "commit_file", "files_at", "has_commit"]

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@overload
def commit_file(path: Path, version: int) -> Path: ...
@overload
def commit_file(path: Location, version: int) -> Location: ...
def commit_file(path: Location, version: int) -> Location:
    return path / "_delta_log" / f"{version:020d}.json"


def checkpoint_file(path: Location, version: int) -> Location:
    return path / "_delta_log" / f"{version:020d}.checkpoint.parquet"


def has_commit(path: Location, version: int) -> bool:
    return commit_file(path, version).exists()


@dataclass(frozen=True)
class LogFiles:
    """One look at a log's folder."""

    path: Location
    commits: dict[int, float]  # version -> when its file was written, in seconds
    checkpoints: list[int]

    @classmethod
    def listed(cls, path: Location) -> LogFiles:
        commits: dict[int, float] = {}
        checkpoints = []
        try:
            with scan(path / "_delta_log") as entries:
                for entry in entries:
                    if found := _COMMIT.fullmatch(entry.name):
                        commits[int(found[1])] = entry.stat().st_mtime
                    elif found := _CHECKPOINT.fullmatch(entry.name):
                        checkpoints.append(int(found[1]))
        except (FileNotFoundError, NotADirectoryError):
            pass
        return cls(path, commits, sorted(checkpoints))

    @property
    def newest(self) -> int:
        """The newest version; -1: there is no log."""
        return max(self.commits, default=-1)

    @property
    def start(self) -> int:
        """The oldest version that can be read; -1: there is no log."""
        if not self.commits or 0 in self.commits:
            return min(self.commits, default=-1)
        oldest = min(self.commits)
        usable = [version for version in self.checkpoints if version >= oldest - 1]
        return usable[0] if usable else -1

    def as_of(self, moment: float) -> int:
        """The version that was newest at a moment (seconds); the start, if that came later."""
        known = [version for version, written in self.commits.items() if written <= moment]
        return max(max(known, default=self.start), self.start)


# --- which files a version has ----------------------------------------------------------------
def files_at(path: Location, version: int) -> dict[str, Action]:
    """The ``add`` of every file of a version, as the log has it, by path."""
    import pyarrow.parquet as pq  # here: a small query looks at logs and must begin at once

    from penstock.runtime.delta.log import read_commit

    found: dict[str, Action] = {}
    start = -1
    checkpoint = _checkpoint_before(path, version)
    if checkpoint is not None:
        start, file = checkpoint
        for add in pq.read_table(readable(file), columns=["add"])["add"].to_pylist():
            if add is not None:
                found[add["path"]] = _plain(add)
    for number in range(start + 1, version + 1):
        for action in read_commit(path, number):
            if "remove" in action:
                found.pop(action["remove"]["path"], None)
            elif "add" in action:
                found[action["add"]["path"]] = action["add"]
    return found


def _checkpoint_before(path: Location, version: int) -> tuple[int, Location] | None:
    files = (path / "_delta_log").glob("*.checkpoint.parquet")
    numbered = {int(file.name.split(".")[0]): file for file in files}
    newest = max((number for number in numbered if number <= version), default=None)
    return None if newest is None else (newest, numbered[newest])


def _plain(add: Mapping[str, Any]) -> Action:
    """An add as a checkpoint keeps it, as a commit writes it."""
    kept = ("path", "size", "modificationTime", "dataChange", "stats")
    return {**{name: add[name] for name in kept}, "partitionValues": {}}
