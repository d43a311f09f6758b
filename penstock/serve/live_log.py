"""A table's log, read once and then followed: which files a version has, and what they may hold.

Purpose: a look-up must not list or read a whole log, and must see a commit as soon as it is there.

How it works: the log is read from its newest checkpoint on, once. After that a commit is one file
whose name is the next version: every look asks for that name, and stops at the first that is not
there. A state is never changed; the next one is made from it, so whoever has one keeps exactly one
version, whatever is committed or promoted meanwhile. A log that was cleaned up past our place, or
replaced, shows in the file of our own version, which is gone or another: then it is read anew.

What it does not do: read data, or decide that a table may be read (see ``lookup``).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.errors import QueryRefused
from penstock.runtime.delta.log_files import LogFiles, checkpoint_file, commit_file
from penstock.serve.snapshot import Column, columns_of, local_path, refuse_features
from penstock.serve.values import bound

__all__ = ["Bounds", "LiveFile", "LiveLog", "LogState"]

Action = Mapping[str, Any]
ReadCheckpoint = Callable[[str], Iterable[Action]]

_TRIES = 5  # a log may be cleaned up while it is read


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the log says of one column of a file; None: it says nothing."""

    low: Any = None
    high: Any = None
    nulls: int | None = None


class LiveFile:
    """A data file of a version. Its statistics are taken apart when a column is first asked for."""

    __slots__ = ("_bounds", "_stats", "partition", "path", "rows", "size")

    def __init__(self, folder: Path, add: Action) -> None:
        self.path = local_path(folder, add["path"])
        self.size = int(add.get("size") or 0)
        self.partition = tuple(sorted((add.get("partitionValues") or {}).items()))
        self._stats: str | None = add.get("stats") or None
        self._bounds: dict[tuple[str, str], Bounds] = {}
        self.rows: int | None = None

    def bounds(self, column: Column) -> Bounds:
        name = (column.name, column.type)
        found = self._bounds.get(name)
        if found is None:
            found = self._bounds[name] = self._read(column)
        return found

    def _read(self, column: Column) -> Bounds:
        if self._stats is None:
            return Bounds()
        try:
            told = json.loads(self._stats, parse_float=Decimal)
            self.rows = told.get("numRecords")
            low, high = (
                bound(column, (told.get(side) or {}).get(column.name), up=up)
                for side, up in (("minValues", False), ("maxValues", True))
            )
            nulls = (told.get("nullCount") or {}).get(column.name)
        except (ValueError, AttributeError):
            self._stats = None  # statistics are optional; what cannot be read is not there
            return Bounds()
        return Bounds(low, high, nulls if isinstance(nulls, int) else None)


@dataclass(frozen=True)
class LogState:
    """One version of a table: it stays as it is, however the table moves on."""

    folder: Path
    version: int
    table_id: str
    columns: tuple[Column, ...]
    files: Mapping[str, LiveFile] = field(repr=False)
    committed_ms: int | None
    mark: tuple[int, int]  # of the file of this version: another one is another log

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


class LiveLog:
    """The newest state of one table's log, followed."""

    def __init__(self, label: str, folder: Path, read_checkpoint: ReadCheckpoint) -> None:
        self._label = label
        self._folder = folder
        self._read_checkpoint = read_checkpoint
        self._lock = threading.Lock()
        self._state: LogState | None = None

    def newest(self, *, anew: bool = False) -> LogState | None:
        """The newest state; None: there is no commit.

        Args:
            anew: trust nothing that was read before.
        """
        with self._lock:
            state = None if anew else self._state
            if state is None or _mark(commit_file(self._folder, state.version)) != state.mark:
                state = self.at(None)
            while state is not None:
                following = self._next(state)
                if following is None:
                    break
                state = following
            self._state = state
            return state

    def _next(self, state: LogState) -> LogState | None:
        commit = _commit(self._folder, state.version + 1)
        return None if commit is None else self._moved(state, *commit)

    # --- from the beginning ---------------------------------------------------------------
    def at(self, version: int | None) -> LogState | None:
        """A version read from its checkpoint on; by default the newest. None: it is not there.

        Raises:
            QueryRefused: the log has gaps, or a feature this reader would misread.
        """
        for _ in range(_TRIES):
            log = LogFiles.listed(self._folder)
            if not log.commits:
                return None
            asked = log.newest if version is None else version
            state = self._read(log, asked)
            if state is not None:
                return state
        if version is not None:
            return None
        raise QueryRefused(
            f"the log of {self._label} has no whole beginning.",
            remedy="Try again; if it stays so, look at the table with `penstock doctor`.",
        )

    def _read(self, log: LogFiles, version: int) -> LogState | None:
        start = max((n for n in log.checkpoints if n <= version), default=-1)
        state: LogState | None = None
        try:
            if start >= 0:
                begun = checkpoint_file(self._folder, start)
                state = self._begun(start, self._read_checkpoint(str(begun)))
            for number in range(start + 1, version + 1):
                commit = _commit(self._folder, number)
                if commit is None:  # the newest may be being written, where a disk lets it be seen
                    return state if number == log.newest else None
                state = self._moved(state, *commit) if state else self._begun(number, *commit[1:])
        except FileNotFoundError:
            return None
        return state

    def _begun(
        self, version: int, actions: Iterable[Action], mark: tuple[int, int] | None = None
    ) -> LogState:
        listed = list(actions)
        empty = LogState(self._folder, version - 1, "", (), {}, None, (0, 0))
        if mark is not None:
            return self._moved(empty, version, listed, mark)
        own = _commit(self._folder, version)  # a checkpoint does not tell when it was committed
        told = [a for a in own[1] if "commitInfo" in a] if own else []
        return self._moved(empty, version, [*listed, *told], own[2] if own else (0, 0))

    # --- one commit on --------------------------------------------------------------------
    def _moved(
        self, state: LogState, version: int, actions: Sequence[Action], mark: tuple[int, int]
    ) -> LogState:
        files = dict(state.files)
        table_id, columns = state.table_id, state.columns
        committed = None
        for action in actions:
            if removed := action.get("remove"):
                files.pop(removed["path"], None)
        for action in actions:
            if added := action.get("add"):
                files[added["path"]] = LiveFile(self._folder, added)
            elif metadata := action.get("metaData"):
                table_id, columns = str(metadata["id"]), _columns(self._label, metadata)
            elif protocol := action.get("protocol"):
                refuse_features(self._label, protocol.get("readerFeatures") or (), {})
            elif info := action.get("commitInfo"):
                committed = info.get("inCommitTimestamp") or info.get("timestamp")
        stamp = int(committed) if committed is not None else mark[1] // 10**6 or None
        return LogState(self._folder, version, table_id, columns, files, stamp, mark)


def _columns(label: str, metadata: Action) -> tuple[Column, ...]:
    refuse_features(label, (), dict(metadata.get("configuration") or {}))
    partition_by = metadata.get("partitionColumns") or []
    return columns_of(json.loads(metadata["schemaString"]), partition_by)


def _commit(folder: Path, version: int) -> tuple[int, list[Action], tuple[int, int]] | None:
    """The actions of a commit and the mark of its file; None while it is not there (whole)."""
    try:
        with commit_file(folder, version).open("rb") as file:
            mark = _marked(os.fstat(file.fileno()))
            actions = [json.loads(line) for line in file.read().splitlines() if line.strip()]
    except (FileNotFoundError, ValueError):
        return None
    return (version, actions, mark) if actions else None


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        return _marked(os.stat(path))
    except FileNotFoundError:
        return None


def _marked(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_mtime_ns
