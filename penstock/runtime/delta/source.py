"""Reading a table's new rows by version: from memory while they are fresh, from files otherwise."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

from penstock.location import Location, copies, copy_of, delta_table
from penstock.runtime.delta.beginnings import base_of
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.log import Action, DeltaLog, read_commit
from penstock.runtime.delta.log_files import LogFiles, has_commit
from penstock.runtime.delta.writer import RecentRows
from penstock.runtime.times import to_micros

__all__ = [
    "Batch",
    "Source",
    "adds_at",
    "is_kept",
    "new_batches",
    "newest",
    "read_files",
    "rows_at",
    "rows_between",
    "rows_in",
    "with_columns",
]


MOST_BYTES = 512 << 20  # taken in at once while behind


class Source(Protocol):
    """What a follower needs of the table it reads: bronze and revisions both have it."""

    path: Location
    schema: pa.Schema
    log: DeltaLog
    recent: RecentRows


@dataclass
class Batch:
    """The changes of consecutive commits, ``(after, to]``; in memory, or as lists of files."""

    after: int
    to: int
    count: int = 0  # rows that came or went
    size: int = 0  # bytes: in memory for rows held, on disk for files
    held: list[Change] = field(default_factory=list)
    files: list[Location] = field(default_factory=list)  # of rows that came
    changes: list[Location] = field(default_factory=list)  # of rows that came and went

    @property
    def appends(self) -> bool:
        """True when rows only came."""
        return not self.changes and all(not c.gone or not c.gone.num_rows for c in self.held)

    def change(self, schema: pa.Schema) -> Change:
        """All of it as one change, read from files where it is not in memory."""
        parts = [*self.held, *(Change(rows) for rows in read_files(self.files, schema))]
        for file in self.changes:
            parts.append(Change.of_changes(pq.read_table(copy_of(file), partitioning=None), schema))
        return Change.joined(schema, parts)


def new_batches(
    source: Source, after: int, most_rows: int, until: int | None = None
) -> Iterator[Batch]:
    """Commits after a version, gathered into batches of at most ``most_rows`` where possible."""
    batch = Batch(after, after)
    newest = source.log.version if until is None else until
    for part in _parts(source, after, newest):
        full = batch.count + part.count > most_rows or batch.size + part.size > MOST_BYTES
        if batch.count and full:
            yield batch
            batch = Batch(batch.to, batch.to)
        batch.to = part.to
        batch.count += part.count
        batch.size += part.size
        batch.held += part.held
        batch.files += part.files
        batch.changes += part.changes
    if batch.to > batch.after:
        yield batch


def _parts(source: Source, after: int, newest: int) -> Iterator[Batch]:
    """Commit by commit; before the oldest that is kept, what stands for those that are gone."""
    if after < newest and not has_commit(source.path, after + 1):
        base = base_of(source.path)
        for segment in base.after(after):
            if segment.last > newest:
                return
            files = [source.path / add["path"] for add in segment.adds]
            yield Batch(after, segment.last, segment.rows, segment.size, files=files)
            after = segment.last
        if after < base.version <= newest:
            yield Batch(after, base.version)
        after = max(after, base.version)
    for version in range(after + 1, newest + 1):
        yield _commit_of(source, version)


def _commit_of(source: Source, version: int) -> Batch:
    held = source.recent.get(version)
    if held is not None:
        return Batch(version - 1, version, held.rows, held.nbytes, held=[held])
    return _files_of(source, version)


def _files_of(source: Source, version: int) -> Batch:
    """What a commit did, as files; a rewrite that changed no data (compaction) did nothing."""
    actions = read_commit(source.path, version)
    changes = [a["cdc"] for a in actions if "cdc" in a]
    adds = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
    if changes:  # by Delta's rule they tell all that happened
        paths = [source.path / change["path"] for change in changes]
        count = sum(pq.read_metadata(path).num_rows for path in copies(paths))
        size = sum(change["size"] for change in changes)
        return Batch(version - 1, version, count, size, changes=paths)
    count = sum(json.loads(add["stats"])["numRecords"] for add in adds)
    size = sum(add["size"] for add in adds)
    files = [source.path / add["path"] for add in adds]
    return Batch(version - 1, version, count, size, files=files)


def rows_at(source: Source, version: int) -> Iterator[pa.Table]:
    """All rows of a version, file by file."""
    if version < 0:
        return
    for add in adds_at(source.path, version):
        yield from read_files([source.path / unquote(add["path"])], source.schema)


def adds_at(path: Location, version: int) -> list[dict[str, Any]]:
    """The files of a version, with their statistics as ``min.<column>`` and ``max.<column>``.

    Also of one from before the log begins, where a reader stands that began at the beginning.
    """
    try:
        table = delta_table(path, version)
    except TableNotFoundError:
        if not 0 <= version < LogFiles.listed(path).start:
            raise
        return [_flat(add) for add in base_of(path).at(version)]
    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return found


def _flat(add: Action) -> dict[str, Any]:
    told = json.loads(add["stats"])
    found = {"path": add["path"], "size_bytes": add["size"], "num_records": told["numRecords"]}
    for word, bounds in (("min", "minValues"), ("max", "maxValues")):
        found |= {f"{word}.{name}": _value(value) for name, value in told[bounds].items()}
    return found


def _value(value: Any) -> Any:
    """A time, where a text is one."""
    try:
        return dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value


def is_kept(source: Source, version: int) -> bool:
    """Whether a reader that stands at a version can go on commit by commit."""
    return version >= source.log.version or has_commit(source.path, version + 1)


def rows_between(
    source: Source,
    version: int,
    column: str,
    start: dt.datetime | None = None,
    end: dt.datetime | None = None,
) -> pa.Table:
    """The rows of a version whose time is in ``[start, end)``; skips files that lie outside.

    Skips by itself, because delta-rs' own filter drops files that have no statistics for it.
    """
    if version < 0:
        return source.schema.empty_table()
    adds = adds_at(source.path, version)
    low, high = f"min.{column}", f"max.{column}"
    files = [
        source.path / unquote(add["path"])
        for add in adds
        if (start is None or add.get(high) is None or _utc(add[high]) >= start)
        and (end is None or add.get(low) is None or _utc(add[low]) < end)
    ]
    return rows_in(source, files, column, start, end)


def rows_in(
    source: Source,
    files: list[Location],
    column: str,
    start: dt.datetime | None,
    end: dt.datetime | None,
) -> pa.Table:
    """The rows of some files whose time is in ``[start, end)``."""
    rows = pa.concat_tables([source.schema.empty_table(), *read_files(files, source.schema)])
    if start is not None:
        rows = rows.filter(pc.greater_equal(rows[column], pa.scalar(start)))
    if end is not None:
        rows = rows.filter(pc.less(rows[column], pa.scalar(end)))
    return rows


def newest(source: Source, version: int, column: str) -> int | None:
    """The newest time of a column at a version, from the files' statistics, in microseconds."""
    if version < 0:
        return None
    adds = adds_at(source.path, version)
    known = [add[f"max.{column}"] for add in adds if add.get(f"max.{column}") is not None]
    return to_micros(max(known)) if known else None


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def read_files(files: list[Location], schema: pa.Schema) -> list[pa.Table]:
    return [with_columns(pq.read_table(f, partitioning=None), schema) for f in copies(files)]


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """A file that is older than a column has nulls there."""
    for column in schema:
        if column.name not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows.select(schema.names).cast(schema)
