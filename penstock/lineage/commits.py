"""What the commits of one table tell: which files they added, how far they had read, and when.

Commits are read one by one from the log's own small files, newest questions first, and kept: a
question about a row touches a few dozen of them. Opening an old version with a Delta reader would
replay the whole log each time. A commit that is gone from the log is in the table's archive, in
little; a row in a merged file has its commit in that file's footer.
"""

from __future__ import annotations

import datetime as dt
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from penstock.location import Location, scan
from penstock.runtime.delta.archive import Archive
from penstock.runtime.delta.beginnings import merged_span
from penstock.runtime.delta.log import Action, read_commit
from penstock.runtime.upkeep.merge import commits_in

__all__ = ["Commit", "History", "Offsets", "Span", "merged"]

Span = tuple[int, int]  # versions from the first to the last, both included

NOTHING = -1  # a position: nothing of that input was read
_KAFKA = "kafka"
# A file is written a moment before its commit, by the same clock; a clock that was set back a
# little in between must not hide the commit.
_SLACK_MS = 5_000


@dataclass(frozen=True)
class Commit:
    """One commit, as far as lineage goes."""

    version: int
    stamp: int  # milliseconds
    operation: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    adds: Mapping[str, Action] = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    txns: Mapping[str, int] = field(default_factory=dict)
    gone: bool = False  # from the log

    @property
    def time(self) -> str:
        moment = dt.datetime.fromtimestamp(self.stamp / 1000, dt.UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def rewrites(self) -> bool:
        """It replaced files: a row in one that it added may be older than it."""
        return bool(self.removes or self.changes)

    @property
    def came(self) -> list[str]:
        """The files that hold the rows that came with it: by Delta's rule the change files."""
        if self.changes:
            return list(self.changes)
        return [path for path, add in self.adds.items() if add.get("dataChange", True)]


@dataclass(frozen=True)
class Offsets:
    """Records of one partition, ``start`` up to but without ``end``; None: from the first kept."""

    topic_id: str
    partition: int
    start: int | None
    end: int


class History:
    """The log of one table, read backwards."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self._archive = Archive(path)
        self._footers: dict[str, list[tuple[int, int]]] = {}
        self._read: dict[int, Commit | None] = {}

    @cached_property
    def newest(self) -> int:
        """The newest version; -1 where there is no log."""
        try:
            with scan(self.path / "_delta_log") as entries:
                stems = [e.name[:-5] for e in entries if e.name.endswith(".json")]
        except (FileNotFoundError, NotADirectoryError):
            return -1
        return max((int(stem) for stem in stems if stem.isdigit()), default=-1)

    def commit(self, version: int) -> Commit | None:
        """A commit; None when neither the log nor the archive has it."""
        if version not in self._read:
            try:
                self._read[version] = _commit(version, read_commit(self.path, version))
            except FileNotFoundError:
                self._read[version] = self._archived(version)
        return self._read[version]

    def _archived(self, version: int) -> Commit | None:
        found = self._archive.commit(version)
        if found is None:
            return None
        adds: dict[str, Action] = {path: {"path": path} for path in found.adds}
        return Commit(
            version, found.stamp, found.operation, found.told, adds, txns=found.txns, gone=True
        )

    def merged_rows(self, file: str) -> list[tuple[int, int, int]]:
        """Of a merged file: which rows, from and up to without, came with which commit."""
        if merged_span(file) is None:
            return []
        if file not in self._footers:
            self._footers[file] = commits_in(self.path / file)
        found, start = [], 0
        for version, rows in self._footers[file]:
            found.append((version, start, start + rows))
            start += rows
        return found

    def brought_at(self, file: str, row: int) -> int | None:
        """The commit that a row of a merged file came with."""
        return next((v for v, a, b in self.merged_rows(file) if a <= row < b), None)

    def commits(self, spans: Iterable[Span]) -> Iterator[Commit]:
        for first, last in spans:
            for version in range(first, last + 1):
                commit = self.commit(version)
                if commit is not None:
                    yield commit

    def added_in(self, file: str, written: int, until: int) -> int | None:
        """The commit that added a file, which was written at ``written`` (milliseconds)."""
        start = bisect_left(range(until + 1), written - _SLACK_MS, key=self._stamp)
        for version in chain(range(start, until + 1), range(start - 1, -1, -1)):
            commit = self.commit(version)
            if commit is not None and file in commit.adds:
                return version
        return None

    def _stamp(self, version: int) -> int:
        commit = self.commit(version)
        return commit.stamp if commit is not None else 0

    # --- positions ------------------------------------------------------------------------
    def position(self, revision: str, source: str, version: int) -> int:
        """How far ``source`` was read as of a version."""
        app = f"{revision}:{source}"
        for number in range(version, -1, -1):
            commit = self.commit(number)
            if commit is None:
                break
            if app in commit.txns:
                return commit.txns[app]
        return NOTHING

    def taken_in(self, revision: str, source: str, spans: Sequence[Span]) -> list[Span]:
        """The versions of ``source`` that these commits took in."""
        found = []
        for first, last in spans:
            after = self.position(revision, source, first - 1)
            until = self.position(revision, source, last)
            if until > after:
                found.append((after + 1, until))
        return merged(found)

    def offsets(self, spans: Sequence[Span]) -> list[Offsets]:
        """Of a bronze table: the records of these commits, per partition from first to last."""
        starts: dict[str, int | None] = {}
        ends: dict[str, int] = {}
        for commit in self.commits(spans):
            for app, end in commit.txns.items():
                if app.partition(":")[0] == _KAFKA:
                    if app not in starts:
                        starts[app] = self._before(app, commit.version)
                    ends[app] = end
        return sorted(
            (_offsets(app, starts[app], end) for app, end in ends.items()),
            key=lambda o: (o.topic_id, o.partition),
        )

    def _before(self, app: str, version: int) -> int | None:
        """The position of a transaction before a version."""
        for number in range(version - 1, -1, -1):
            commit = self.commit(number)
            if commit is None:
                break
            if app in commit.txns:
                return commit.txns[app]
        return None


def _offsets(app: str, start: int | None, end: int) -> Offsets:
    _, topic_id, partition = app.split(":", 2)
    return Offsets(topic_id, int(partition), start, end)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same versions in as few spans as possible, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _commit(version: int, actions: Iterable[Action]) -> Commit:
    info: Action = {}
    adds: dict[str, Action] = {}
    removes, changes, txns = [], [], {}
    for action in actions:
        if "add" in action:
            adds[action["add"]["path"]] = action["add"]
        elif "remove" in action:
            removes.append(action["remove"]["path"])
        elif "cdc" in action:
            changes.append(action["cdc"]["path"])
        elif "txn" in action:
            txns[action["txn"]["appId"]] = int(action["txn"]["version"])
        elif "commitInfo" in action:
            info = action["commitInfo"]
    return Commit(
        version,
        int(info.get("timestamp", 0)),
        str(info.get("operation", "")),
        _told(info),
        adds,
        tuple(removes),
        tuple(changes),
        txns,
    )


def _told(info: Action) -> dict[str, Any]:
    try:
        told = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        return {}  # somebody else's commit, with words of their own
    return told if isinstance(told, dict) else {}
