"""Data files: written from Arrow in the driver or by Spark in parallel, described alike.

Both ways end in the same thing, a list of Delta ``add`` actions with statistics from the Parquet
footer, so whoever commits them cannot tell and need not care which one wrote them.
"""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.location import Location, Remote, below, copy_of, written
from penstock.runtime.delta.change import CHANGE_TYPE, Change
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.relate import among

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "BIG_BATCH_BYTES",
    "BIG_BATCH_ROWS",
    "conform",
    "described",
    "removal",
    "spark_files",
    "write_arrow",
    "write_changes",
]

# Above this many input rows Spark writes the files itself. Known from offsets and file statistics,
# so it is decided before anything is collected.
BIG_BATCH_ROWS = 100_000
BIG_BATCH_BYTES = 128 << 20
_LONGEST_STATISTIC = 32  # as Delta itself: longer text is not worth carrying in every log


def conform(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns in the table's order and types: what Delta promises its readers."""
    return data.select(schema.names).cast(schema)


def write_arrow(data: pa.Table, table: Location, prefix: str = "part") -> list[Action]:
    """One Parquet file from rows in memory; no rows, no file."""
    if data.num_rows == 0:
        return []
    path = table / f"{prefix}-{uuid.uuid4()}.parquet"
    with written(path) as file:
        pq.write_table(data, file, compression="snappy", coerce_timestamps="us")
    return [described(path, table)]


def write_changes(change: Change, keys: Sequence[str], table: Location) -> list[Action]:
    """A change file: what readers of the change feed get of a commit that rewrote files."""
    rows = _told(change, keys)
    if rows.num_rows == 0:
        return []
    folder = table / "_change_data"
    folder.mkdir(exist_ok=True)
    path = folder / f"cdc-{uuid.uuid4()}.parquet"
    with written(path) as file:
        pq.write_table(rows, file, compression="snappy", coerce_timestamps="us")
    return [
        {
            "cdc": {
                "path": below(path, table),
                "partitionValues": {},
                "size": copy_of(path).stat().st_size,
                "dataChange": False,
            }
        }
    ]


def _told(change: Change, keys: Sequence[str]) -> pa.Table:
    """Rows with Delta's word for each: a key that went and came again was updated."""
    gone = change.gone if change.gone is not None else change.added.slice(0, 0)
    named = list(keys)
    parts = []
    for rows, others, alone, paired in (
        (gone, change.added, "delete", "update_preimage"),
        (change.added, gone, "insert", "update_postimage"),
    ):
        both = among(rows, others.select(named)) if named else np.zeros(rows.num_rows, bool)
        words = pa.array(np.where(both, paired, alone), pa.string())
        parts.append(rows.append_column(CHANGE_TYPE, words))
    return pa.concat_tables(parts)


def removal(path: str, size: int, *, changed: bool = True) -> Action:
    """The action that takes a file out of a table; with what change feed readers need to know."""
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": int(time.time() * 1000),
            "dataChange": changed,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": size,
        }
    }


def spark_files(frame: DataFrame, table: Location) -> list[Action]:
    """Files written by Spark's executors, into a folder of their own below the table.

    For an object store they are written to this disk first, where the executors are too.
    """
    folder = table / f"batch-{uuid.uuid4()}"
    if isinstance(folder, Remote):
        frame.write.mode("error").parquet(str(folder.bucket.copies / folder.key))
        written_files: list[Location] = [
            Remote(folder.bucket, key) for key in folder.bucket.put_folder(folder.key)
        ]
    else:
        frame.write.mode("error").parquet(str(folder))
        written_files = sorted(folder.glob("part-*.parquet"))
    found = [described(path, table) for path in written_files]
    return [action for action in found if json.loads(action["add"]["stats"])["numRecords"]]


def described(path: Location, table: Location) -> Action:
    """The action that adds a file that was written."""
    file = copy_of(path)
    metadata = pq.read_metadata(file)
    return {
        "add": {
            "path": below(path, table),
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": json.dumps(_statistics(metadata), separators=(",", ":")),
        }
    }


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, parts in _column_statistics(metadata):
        nulls[name] = sum(part.null_count or 0 for part in parts)
        bounded = [part for part in parts if part.has_min_max]
        if len(bounded) != len(parts):
            continue
        low, high = _bound(bounded, up=False), _bound(bounded, up=True)
        if low is not None and high is not None:
            lows[name], highs[name] = low, high
    return {
        "numRecords": metadata.num_rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": nulls,
    }


def _column_statistics(metadata: pq.FileMetaData) -> Iterator[tuple[str, list[Any]]]:
    """Flat columns whose every row group has statistics; all-null groups carry no bounds."""
    for index in range(min(metadata.num_columns, 32)):
        name = metadata.schema.column(index).path
        if "." in name:
            continue
        parts = [
            metadata.row_group(group).column(index).statistics
            for group in range(metadata.num_row_groups)
        ]
        if parts and all(part is not None and part.has_null_count for part in parts):
            yield name, parts


def _bound(parts: list[Any], *, up: bool) -> Any:
    """The lowest or highest value of a column, as the log tells it; None: nothing is told."""
    try:
        found = max(part.max for part in parts) if up else min(part.min for part in parts)
        return _json_value(found, up=up)
    except OverflowError:  # a time outside the years 1 to 9999: the file is, and may hold anything
        return None


def _json_value(value: Any, *, up: bool) -> Any:
    """As Delta writes it; None where a bound is not worth or not safe to write."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_STATISTIC else None
    if isinstance(value, dt.datetime):
        # Log statistics have milliseconds: round outwards, or a reader would skip the edge row.
        stamp = value.astimezone(dt.UTC)
        odd = stamp.microsecond % 1000
        stamp -= dt.timedelta(microseconds=odd)
        if up and odd:
            stamp += dt.timedelta(milliseconds=1)
        return stamp.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return None
