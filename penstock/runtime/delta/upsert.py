"""Tables whose rows change: which files hold which rows, and how a change becomes a commit.

Files are never edited: a file with a row that goes is replaced by one without it, and readers of
the change feed get the rows that changed and no others. What makes that cheap is the layout, of
which there are two. *Buckets*: rows lie in files by a hash of their scope, a file that grows too
big is split in two by one more bit of the hash; a changed key costs the rewriting of one small
file, however big the table is. *Spans*: rows lie in files as they came, that is by time; the files
of a span are found by their statistics, and rows that are not final lie apart from those that are.
"""

from __future__ import annotations

import bisect
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.location import Location, delta_table
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.relate import matching, members
from penstock.runtime.delta.source import read_files
from penstock.runtime.times import parse_stamp, stamp

__all__ = ["Buckets", "Heap", "Spans", "Upserts", "layout_of"]

MOST_ROWS = 2048  # of a bucket's file, unless one scope alone has more
MOST_BITS = 16
MOST_REMEMBERED = 8 << 20  # bytes of rows of one table kept in memory beside their files
IS_FINAL = "is_final"


@dataclass(frozen=True)
class _File:
    path: str
    size: int
    low: int | None = None  # of the span's column, in microseconds
    high: int | None = None


class Upserts(ABC):
    """The rows of one revision, as one writer sees and changes them."""

    def __init__(
        self, path: Location, version: int, schema: pa.Schema, keys: Sequence[str]
    ) -> None:
        self.path = path
        self.schema = schema
        self.keys = list(keys)
        table = delta_table(path, version)
        self.files: dict[str, _File] = {}
        self._lately: OrderedDict[str, pa.Table] = OrderedDict()
        self._remembered = 0  # bytes
        for add in pa.table(table.get_add_actions(flatten=False)).to_pylist():
            self._learn(self._described(add["path"], add["size_bytes"], add))

    # --- what a layout decides ------------------------------------------------------------
    @abstractmethod
    def _described(self, path: str, size: int, add: dict[str, Any]) -> _File: ...

    @abstractmethod
    def _placed(self, added: pa.Table, kept: list[tuple[_File, pa.Table]]) -> list[Action]:
        """Write new rows, and those kept of files that go, to files."""

    @abstractmethod
    def holders(self, rows: pa.Table) -> list[_File]:
        """Files that may hold any of these rows."""

    @abstractmethod
    def _joins(self, added: pa.Table) -> list[_File]:
        """Files that added rows are to be merged with."""

    # --- changing -------------------------------------------------------------------------
    def rewrite(self, change: Change) -> list[Action]:
        """The actions of a change: files out, files in, and the change file."""
        gone = change.gone if change.gone is not None else self.schema.empty_table()
        if change.added.num_rows == 0 and gone.num_rows == 0:
            return []
        merged = {file.path: file for file in self._joins(change.added)}
        candidates = list({**{f.path: f for f in self.holders(gone)}, **merged}.values())
        tables = [self.read([file]) for file in candidates]
        # One question for all files: asked file by file, it would cost more than the rewriting.
        taken = members(pa.concat_tables([self.schema.empty_table(), *tables]), gone)
        if int(taken.sum()) < gone.num_rows:
            raise AssertionError(f"rows to remove are not in {self.path}")
        kept: list[tuple[_File, pa.Table]] = []
        start = 0
        for file, rows in zip(candidates, tables, strict=True):
            hit = taken[start : start + rows.num_rows]
            start += rows.num_rows
            if hit.any() or file.path in merged:
                kept.append((file, rows.filter(pa.array(~hit))))
        placed = self._placed(change.added, kept)
        removed = [removal(file.path, file.size) for file, _ in kept]
        told = write_changes(change, self.keys, self.path) if kept else []
        for file, _ in kept:
            self._forget(file)
        for action in placed:
            add = action["add"]
            self._learn(self._described(add["path"], add["size"], add))
        return [*removed, *placed, *told]

    def exchange(self, out: Iterable[str], add: dict[str, Any]) -> None:
        """Files were merged into one: the same rows lie there now."""
        for path in out:
            self._forget(self.files[path])
        self._learn(self._described(add["path"], add["size"], add))

    def read(self, files: Iterable[_File]) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *map(self._rows_in, files)])

    def _rows_in(self, file: _File) -> pa.Table:
        """From memory if they passed through it lately: a file never changes."""
        if file.path not in self._lately:
            (rows,) = read_files([self.path / file.path], self.schema)
            self._remember(file.path, rows)
            return rows
        self._lately.move_to_end(file.path)
        return self._lately[file.path]

    def _written(self, rows: pa.Table, prefix: str = "part") -> list[Action]:
        actions = write_arrow(rows, self.path, prefix)
        for action in actions:
            self._remember(action["add"]["path"], rows)
        return actions

    def _remember(self, path: str, rows: pa.Table) -> None:
        if rows.nbytes > MOST_REMEMBERED // 4:
            return
        self._lately[path] = rows.combine_chunks()
        self._remembered += self._lately[path].nbytes
        while self._remembered > MOST_REMEMBERED:
            _, old = self._lately.popitem(last=False)
            self._remembered -= old.nbytes

    def _learn(self, file: _File) -> None:
        self.files[file.path] = file

    def _forget(self, file: _File) -> None:
        del self.files[file.path]
        old = self._lately.pop(file.path, None)
        self._remembered -= old.nbytes if old is not None else 0


class Buckets(Upserts):
    """Rows by a hash of their scope."""

    _NAME = re.compile(r"b(\d\d)-([0-9a-f]{4})-")

    def __init__(
        self,
        path: Location,
        version: int,
        schema: pa.Schema,
        keys: Sequence[str],
        by: Sequence[str],
    ) -> None:
        self.by = list(by)
        self._homes: dict[tuple[int, int], list[_File]] = {}
        self._bits = 0
        super().__init__(path, version, schema, keys)

    def rows_of(self, scopes: pa.Table) -> pa.Table:
        """The rows of these scopes, by their values of ``by``."""
        return matching(self.read(self._home_files(_codes(scopes, self.by))), scopes)

    def _home_files(self, codes: Iterable[int]) -> list[_File]:
        homes = {home for code in codes if (home := self._home(code)) is not None}
        return [file for home in sorted(homes) for file in self._homes[home]]

    def _home(self, code: int) -> tuple[int, int] | None:
        """The bucket of a code: exactly one, or none yet."""
        for bits in range(self._bits + 1):
            home = (bits, code & ((1 << bits) - 1))
            if home in self._homes:
                return home
        return None

    def holders(self, rows: pa.Table) -> list[_File]:
        return self._home_files(_codes(rows, self.by))

    def _joins(self, added: pa.Table) -> list[_File]:
        return self._home_files(_codes(added, self.by))

    def _placed(self, added: pa.Table, kept: list[tuple[_File, pa.Table]]) -> list[Action]:
        parts: dict[tuple[int, int], list[pa.Table]] = {}
        codes = _codes(added, self.by)
        homes: dict[tuple[int, int], list[int]] = {}
        for index, code in enumerate(codes):
            homes.setdefault(self._home(code) or self._new_home(code), []).append(index)
        for home, indices in homes.items():
            parts[home] = [added.take(pa.array(indices, pa.int64()))]
        for file, rows in kept:  # where they belong is known: what is kept costs no hash
            parts.setdefault(self._place_of(file), []).append(rows)
        actions: list[Action] = []
        for home, tables in parts.items():
            for (bits, bucket), part in self._fitting(home, pa.concat_tables(tables)):
                actions += self._written(part, f"b{bits:02d}-{bucket:04x}")
        return actions

    def _fitting(
        self, home: tuple[int, int], rows: pa.Table
    ) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        """The rows of a bucket as files that are not too big."""
        if rows.num_rows <= MOST_ROWS:
            yield home, rows
            return
        codes = _codes(rows, self.by)
        for place, some in _split(home, list(range(rows.num_rows)), codes):
            yield place, rows.take(pa.array(some, pa.int64()))

    def _new_home(self, code: int) -> tuple[int, int]:
        """For a code no file covers: as coarse as the buckets beside it allow."""
        for bits in range(self._bits + 1):
            mask = (1 << bits) - 1
            if not any(b >= bits and (k & mask) == code & mask for b, k in self._homes):
                return (bits, code & mask)
        return (self._bits, code & ((1 << self._bits) - 1))

    def _described(self, path: str, size: int, add: dict[str, Any]) -> _File:
        return _File(path, size)

    def _place_of(self, file: _File) -> tuple[int, int]:
        found = self._NAME.match(Path(file.path).name)
        return (int(found[1]), int(found[2], 16)) if found else (0, 0)

    def _learn(self, file: _File) -> None:
        super()._learn(file)
        home = self._place_of(file)
        self._homes.setdefault(home, []).append(file)
        self._bits = max(self._bits, home[0])

    def _forget(self, file: _File) -> None:
        super()._forget(file)
        home = self._place_of(file)
        self._homes[home] = [f for f in self._homes[home] if f.path != file.path]
        if not self._homes[home]:
            del self._homes[home]


def _split(
    home: tuple[int, int], indices: list[int], codes: list[int]
) -> Iterable[tuple[tuple[int, int], list[int]]]:
    """Halve a bucket until its rows fit a file."""
    bits, bucket = home
    if len(indices) <= MOST_ROWS or bits >= MOST_BITS or len({codes[i] for i in indices}) == 1:
        yield home, indices
        return
    for bit in (0, 1):
        half = [i for i in indices if (codes[i] >> bits) & 1 == bit]
        if half:
            yield from _split((bits + 1, bucket | (bit << bits)), half, codes)


def _codes(rows: pa.Table, by: Sequence[str]) -> list[int]:
    """A stable hash of each row's scope; the same on every machine and in every version."""
    columns = [_plain(rows[name]).to_pylist() for name in by]
    return [zlib.crc32(repr(values).encode()) for values in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As numbers, text or bytes, whose Python form no library will ever change."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    if pa.types.is_date(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    return column


class Spans(Upserts):
    """Rows by a time column, as they came."""

    def __init__(
        self, path: Location, version: int, schema: pa.Schema, keys: Sequence[str], on: str
    ) -> None:
        self.on = on
        super().__init__(path, version, schema, keys)

    def rows_between(self, start: int | None, end: int | None) -> pa.Table:
        """The rows whose time, in microseconds, lies in ``[start, end)``."""
        rows = self.read(self._overlapping(start, end))
        if start is not None:
            rows = rows.filter(pc.greater_equal(rows[self.on], stamp(start)))
        if end is not None:
            rows = rows.filter(pc.less(rows[self.on], stamp(end)))
        return rows

    def _overlapping(self, start: int | None, end: int | None) -> list[_File]:
        return [
            file
            for file in self.files.values()
            if (start is None or file.high is None or file.high >= start)
            and (end is None or file.low is None or file.low < end)
        ]

    def holders(self, rows: pa.Table) -> list[_File]:
        if rows.num_rows == 0:
            return []
        times = pc.unique(rows[self.on].cast(pa.int64())).to_pylist()
        known = sorted(time for time in times if time is not None)
        if len(known) < len(times):  # a null lies anywhere
            return list(self.files.values())
        return [f for f in self._overlapping(known[0], known[-1] + 1) if _hits(f, known)]

    def _joins(self, added: pa.Table) -> list[_File]:
        return []

    def _placed(self, added: pa.Table, kept: list[tuple[_File, pa.Table]]) -> list[Action]:
        rows = pa.concat_tables([added, *(some for _, some in kept)])
        if IS_FINAL not in rows.column_names:
            return self._written(rows)
        final = rows[IS_FINAL]
        return [
            *self._written(rows.filter(final)),
            *self._written(rows.filter(pc.invert(final)), "open"),
        ]

    def _described(self, path: str, size: int, add: dict[str, Any]) -> _File:
        told = add.get("stats")
        if told is not None:  # our own action, just written
            bounds = json.loads(told)
            low, high = bounds["minValues"].get(self.on), bounds["maxValues"].get(self.on)
        else:
            low, high = (add.get("min") or {}).get(self.on), (add.get("max") or {}).get(self.on)
        return _File(path, size, parse_stamp(low), parse_stamp(high))


class Heap(Upserts):
    """Rows as they came, by nothing: one that goes may be anywhere."""

    def holders(self, rows: pa.Table) -> list[_File]:
        return list(self.files.values()) if rows.num_rows else []

    def _joins(self, added: pa.Table) -> list[_File]:
        return []

    def _placed(self, added: pa.Table, kept: list[tuple[_File, pa.Table]]) -> list[Action]:
        return self._written(pa.concat_tables([added, *(some for _, some in kept)]))

    def _described(self, path: str, size: int, add: dict[str, Any]) -> _File:
        return _File(path, size)


def layout_of(path: Location, version: int, schema: pa.Schema, keys: Sequence[str]) -> Upserts:
    """The files of a table that is seldom rewritten: by its first time, if it has one."""
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if times:
        return Spans(path, version, schema, keys, times[0])
    return Heap(path, version, schema, keys)


def _hits(file: _File, times: list[int]) -> bool:
    if file.low is None or file.high is None:
        return True
    at = bisect.bisect_left(times, file.low)
    return at < len(times) and times[at] <= file.high
