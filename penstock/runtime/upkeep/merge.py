"""Small files of a table become few: merged off the hot path, committed by the table's writer.

**Purpose.** Two or three commits a second leave a file each; whoever opens the table opens all.

**How it works.** Files are taken in the order of the commits that brought them and joined with
their neighbours, rows in the same order, so what lay together in time still does, and statistics
still tell intervals apart. A merged file has the span of its commits in its name and, in its
footer, how many rows came with which commit: lineage goes through it. What a merge is (files out,
file in) is noted below ``_merges``; the writer commits it between two batches (``compact``), as a
rewrite that changes no data.

**What it costs.** A file is written again only into one at least ``GROWTH`` times as big as the
biggest that goes into it, or into a full one: so a byte is written at most
log4(128 MB / 4 KB) + 1, that is 8 times more, and in a table that is maintained daily once or
twice. A file of half the target is full and never touched. Between full ones at most three of
each size stay.

**What it does not do.** Touch what has a layout of its own or will be replaced soon: buckets
(``b03-0005-…``, split and joined by their own rule), rows that are not final (``open-…``), and
files younger than ``min_age`` or with results that are not closed.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.location import (
    Location,
    copies,
    copy_of,
    delta_table,
    remove_tree,
    write_whole,
    written,
)
from penstock.runtime.delta.archive import Archive
from penstock.runtime.delta.beginnings import merged_name, merged_span
from penstock.runtime.delta.files import described
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.log_files import LogFiles, commit_file, files_at
from penstock.runtime.delta.source import with_columns
from penstock.runtime.times import parse_stamp

__all__ = [
    "CHANGING",
    "GROWING",
    "Closed",
    "Merge",
    "Merger",
    "clear_notes",
    "commits_in",
    "read_note",
]

GROWING = 128 << 20  # bytes of a full file, where rows only come
CHANGING = 8 << 20  # where rows may go: one that does has its whole file written again
GROWTH = 4
MOST_FILES = 2_000  # of one merge: its commit has to be a small one
_ROW_GROUP = 16 << 20  # bytes in memory
_SECOND_MS = 1000
_COMMITS = b"penstock.commits"  # in the footer: [[version, rows], ...]
_OWN_LAYOUT = re.compile(r"b\d\d-[0-9a-f]{4}-")
_FOLDER = "_merges"


@dataclass(frozen=True)
class Closed:
    """Which results can be left alone: those of a column before a time, in microseconds."""

    column: str
    before: int


@dataclass(frozen=True)
class Merge:
    """Files that go and the one that comes in their place."""

    version: int  # of the table, when the files were looked at
    first: int  # commit whose rows it holds, and
    last: int
    out: list[tuple[str, int]]  # path and size
    add: Action

    @property
    def size(self) -> int:
        return sum(size for _, size in self.out)


@dataclass(frozen=True)
class _Unit:
    """The files of one commit, or one merged file: never split."""

    first: int
    last: int
    adds: tuple[Action, ...]
    fit: bool

    @property
    def size(self) -> int:
        return sum(int(add["size"]) for add in self.adds)


class Merger:
    """Plans and writes the merges of one table.

    Args:
        full: bytes of a full file.
        min_age: seconds since a file was written.
        closed: for tables with intervals.
    """

    def __init__(
        self, path: Location, *, full: int, min_age: float, closed: Closed | None = None
    ) -> None:
        self._path = path
        self._full = full
        self._written_before = (time.time() - min_age) * _SECOND_MS
        self._closed = closed
        self.version = LogFiles.listed(path).newest
        self.files = files_at(path, self.version) if self.version >= 0 else {}

    # --- planning -------------------------------------------------------------------------
    def groups(self) -> list[list[_Unit]]:
        """What is worth merging, the oldest first."""
        if sum(self._fits(p, add) for p, add in self.files.items()) < GROWTH:
            return []
        found: list[list[_Unit]] = []
        run: list[_Unit] = []
        for unit in self._units():
            if unit.fit:
                run.append(unit)
            else:
                found += _worth(run, self._full)
                run = []
        return found + _worth(run, self._full)

    def _fits(self, path: str, add: Action) -> bool:
        name = Path(path).name
        if name.startswith("open-") or _OWN_LAYOUT.match(name) or add["size"] >= self._full // 2:
            return False
        if add["modificationTime"] > self._written_before:
            return False
        if self._closed is None:
            return True
        high = parse_stamp(json.loads(add["stats"])["maxValues"].get(self._closed.column))
        return high is not None and high < self._closed.before

    def _units(self) -> Iterator[_Unit]:
        """In the order of their commits; files whose commit nobody knows stand alone."""
        brought = self._brought()
        by_span: dict[tuple[int, int], list[Action]] = {}
        for path, add in self.files.items():
            span = merged_span(path) or (brought.get(path, -1),) * 2
            by_span.setdefault(span, []).append({**add, "path": path})
        spans = sorted(by_span)
        crossed = {s for pair in pairwise(spans) if pair[0][1] >= pair[1][0] for s in pair}
        for span in spans:
            adds = tuple(by_span[span])
            known = span[0] >= 0 and span not in crossed
            yield _Unit(*span, adds, known and all(self._fits(a["path"], a) for a in adds))

    def _brought(self) -> dict[str, int]:
        """Which commit brought each file that is not merged yet, looked for backwards."""
        wanted = {path for path in self.files if merged_span(path) is None}
        found = {p: v for p, v in Archive(self._path).brought()[0].items() if p in wanted}
        wanted -= set(found)
        for version in range(self.version, LogFiles.listed(self._path).start - 1, -1):
            if not wanted:
                break
            for path in added_by(self._path, version):
                if path in wanted:
                    wanted.discard(path)
                    found[path] = version
        return found

    # --- writing --------------------------------------------------------------------------
    def merges(self, budget: int) -> Iterator[tuple[str, Merge]]:
        """Write merged files until ``budget`` bytes were read; each with the name of its note."""
        schema = pa.schema(delta_table(self._path).schema().to_arrow())
        for group in self.groups():
            if budget <= 0:
                return
            merge = self._merged(group, schema)
            budget -= merge.size
            yield _note(self._path, merge), merge

    def _merged(self, group: list[_Unit], schema: pa.Schema) -> Merge:
        adds = [(unit, add) for unit in group for add in unit.adds]
        first, last = group[0].first, group[-1].last
        name = f"{merged_name(first, last)}-{uuid.uuid4()}.parquet"
        counts = [pair for unit, add in adds for pair in commits_of(self._path, unit.last, add)]
        _write(self._path, name, [add["path"] for _, add in adds], schema, counts)
        add = described(self._path / name, self._path)["add"]
        # As old as the newest that went in: the order of files by age is that of their commits.
        newest = max(add["modificationTime"] for _, add in adds)
        told = {**add, "dataChange": False, "modificationTime": newest}
        out = [(str(add["path"]), int(add["size"])) for _, add in adds]
        return Merge(self.version, first, last, out, {"add": told})


def _worth(run: list[_Unit], full: int) -> list[list[_Unit]]:
    """Parts of a run of neighbours that are worth writing again."""
    found: list[list[_Unit]] = []
    start = 0
    while start < len(run):
        end, size, files = start, 0, 0
        while end < len(run) and (end == start or size + run[end].size <= full):
            if files and files + len(run[end].adds) > MOST_FILES:
                break
            size += run[end].size
            files += len(run[end].adds)
            end += 1
        found += _without_big(run[start:end], full)
        start = end
    return found


def _without_big(part: list[_Unit], full: int) -> list[list[_Unit]]:
    """All of it if nothing in it is too big to be written again for so little; else what is
    before that one and what is after."""
    if sum(len(unit.adds) for unit in part) < 2:
        return []
    sizes = [unit.size for unit in part]
    whole = sum(sizes)
    if whole >= GROWTH * max(sizes) or whole >= full // 2:
        return [part]
    at = sizes.index(max(sizes))
    return _without_big(part[:at], full) + _without_big(part[at + 1 :], full)


def _write(
    path: Location, name: str, files: list[str], schema: pa.Schema, counts: list[tuple[int, int]]
) -> None:
    """One file of many, row group by row group: memory holds no more than one."""
    told = schema.with_metadata({_COMMITS: json.dumps(counts, separators=(",", ":")).encode()})
    held: list[pa.Table] = []
    size = 0
    with (
        written(path / name) as target,
        pq.ParquetWriter(target, told, compression="snappy", coerce_timestamps="us") as writer,
    ):
        for file in copies(path / name for name in files):
            rows = pq.read_table(file, partitioning=None, use_threads=False)
            held.append(with_columns(rows, schema))
            size += rows.nbytes
            if size >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(held).replace_schema_metadata(told.metadata))
                held, size = [], 0
        if held:
            writer.write_table(pa.concat_tables(held).replace_schema_metadata(told.metadata))


def added_by(path: Location, version: int) -> Iterator[str]:
    """The files a commit added."""
    for line in commit_file(path, version).read_text().splitlines():
        if line.startswith('{"add"'):
            yield json.loads(line)["add"]["path"]


def commits_of(path: Location, version: int, add: Mapping[str, Any]) -> list[tuple[int, int]]:
    """How many rows of a file came with which commit, in their order."""
    if merged_span(add["path"]) is None:
        return [(version, int(json.loads(add["stats"])["numRecords"]))]
    return commits_in(path / add["path"])


def commits_in(file: Location) -> list[tuple[int, int]]:
    """The same, by the footer of a merged file."""
    told = (pq.read_schema(copy_of(file)).metadata or {}).get(_COMMITS)
    return [(int(v), int(rows)) for v, rows in json.loads(told)] if told else []


# --- notes --------------------------------------------------------------------------------
def _note(path: Location, merge: Merge) -> str:
    folder = path / _FOLDER
    folder.mkdir(exist_ok=True)
    name = uuid.uuid4().hex
    told = json.dumps(asdict(merge), separators=(",", ":"))
    write_whole(folder / f"{name}.json", told.encode())
    return name


def read_note(path: Location, name: str) -> Merge | None:
    """What somebody merged; None: it was given up since, or is committed."""
    try:
        told = json.loads((path / _FOLDER / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    return Merge(**{**told, "out": [(str(p), int(size)) for p, size in told["out"]]})


def clear_notes(path: Location) -> None:
    """Notes of a run that was killed: what they name is an orphan now."""
    remove_tree(path / _FOLDER)
