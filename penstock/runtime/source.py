"""Reading a table's new rows by version: from memory while they are fresh, from files otherwise."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.errors import PenstockError
from penstock.runtime.delta_log import DeltaLog
from penstock.runtime.writer import RecentRows

__all__ = ["Batch", "Source", "new_batches", "read_files", "rows_since"]


MOST_BYTES = 512 << 20  # taken in at once while behind


class Source(Protocol):
    """What a follower needs of the table it reads: bronze and revisions both have it."""

    path: Path
    schema: pa.Schema
    log: DeltaLog
    recent: RecentRows


@dataclass
class Batch:
    """The rows of consecutive commits, ``(after, to]``; in memory, or as a list of files."""

    after: int
    to: int
    count: int = 0
    size: int = 0  # bytes: in memory for rows held, on disk for files
    tables: list[pa.Table] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def rows(self, schema: pa.Schema) -> pa.Table:
        """All rows as Arrow, read from files where they are not in memory."""
        parts = [*self.tables, *(read_files(self.files, schema) if self.files else [])]
        return pa.concat_tables(parts) if parts else schema.empty_table()


def new_batches(
    source: Source, after: int, most_rows: int, cut: int | None = None
) -> Iterator[Batch]:
    """Commits after a version, gathered into batches of at most ``most_rows`` where possible.

    No batch reaches across version ``cut``.
    """
    batch = Batch(after, after)
    for version in range(after + 1, source.log.version + 1):
        rows = source.recent.get(version)
        files: list[Path]
        if rows is not None:
            files, count, size = [], rows.num_rows, rows.nbytes
        else:
            files, count, size = _files_of(source, version)
        full = batch.count + count > most_rows or batch.size + size > MOST_BYTES
        if batch.count and (full or batch.to == cut):
            yield batch
            batch = Batch(batch.to, batch.to)
        batch.to = version
        batch.count += count
        batch.size += size
        if rows is not None:
            batch.tables.append(rows)
        else:
            batch.files.extend(files)
    if batch.to > batch.after:
        yield batch


def _files_of(source: Source, version: int) -> tuple[list[Path], int, int]:
    """Data files a commit added; a rewrite that changed no data (compaction) adds none."""
    from penstock.runtime.delta_log import read_commit

    try:
        actions = read_commit(source.path, version)
    except FileNotFoundError:
        raise PenstockError(
            f"version {version} of {source.path.name} is no longer in its log: the reader fell "
            "behind further than the log is kept.",
            remedy="Stage the table anew from its input's history.",
        ) from None
    adds = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
    count = sum(json.loads(add["stats"])["numRecords"] for add in adds)
    size = sum(add["size"] for add in adds)
    return [source.path / add["path"] for add in adds], count, size


def rows_since(source: Source, version: int, column: str, start: dt.datetime) -> pa.Table:
    """The rows of a version whose time is at or after ``start``; skips files that end before it.

    Skips by itself, because delta-rs' own filter drops files that have no statistics for it.
    """
    table = DeltaTable(str(source.path), version=version)
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    limit = f"max.{column}"
    files = [
        source.path / unquote(add["path"])
        for add in adds
        if add.get(limit) is None or _utc(add[limit]) >= start
    ]
    rows = pa.concat_tables([source.schema.empty_table(), *read_files(files, source.schema)])
    return rows.filter(pc.greater_equal(rows[column], pa.scalar(start)))


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def read_files(files: list[Path], schema: pa.Schema) -> list[pa.Table]:
    return [
        pq.read_table(file, partitioning=None).select(schema.names).cast(schema) for file in files
    ]
