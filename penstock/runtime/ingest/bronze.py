"""bronze: a topic kept byte for byte, with coordinates. The log everything is replayed from.

The position of a bronze table is the next offset of each partition, kept as txn actions named by
topic id: a recreated topic repeats offsets, so its name would not do. Rows at lower offsets are
dropped before a commit, so any replay of a batch, under any checkpoint, writes nothing twice.
The newest ingest time is kept the same way, for the whole table: it never goes back, whatever the
machine's clock does, so what is decided by it (a dedupe horizon, processing time) can be replayed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.location import Location
from penstock.model.names import TableName
from penstock.runtime.decode.expression import VOID
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.log import Action, DeltaLog
from penstock.runtime.delta.writer import RecentRows, live_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "BRONZE_COLUMNS",
    "INGESTED",
    "BronzeWriter",
    "bronze_schema",
    "identified_frame",
    "identified_rows",
    "record_columns",
]

INGESTED = "penstock:ingested"  # the newest ingest time of the table, in microseconds

_STAMP = pa.timestamp("us", tz="UTC")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def bronze_schema() -> pa.Schema:
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(_HEADER)),
            ("cluster_id", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", _STAMP),
            ("timestamp_type", pa.int32()),
            ("ingested_at", _STAMP),
            (VOID, pa.string()),  # why the record does not count; null: it does
        ]
    )


BRONZE_COLUMNS = bronze_schema().names


def record_columns(records: DataFrame) -> DataFrame:
    """What bronze keeps of a Kafka record; planned once, when the query starts."""
    return records.select(
        "key",
        "value",
        "headers",
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.col("timestampType").alias("timestamp_type"),
    )


def identified_frame(
    records: DataFrame, *, cluster_id: str, topic_id: str, ingested_at: dt.datetime
) -> DataFrame:
    """Records in bronze's columns; the ingest time is one moment per batch."""
    return records.withColumns(
        {
            "cluster_id": F.lit(cluster_id),
            "topic_id": F.lit(topic_id),
            "ingested_at": F.timestamp_micros(F.lit((ingested_at - _EPOCH) // _MICROSECOND)),
            VOID: F.lit(None).cast("string"),
        }
    ).select(*BRONZE_COLUMNS)


def identified_rows(
    records: pa.Table, *, cluster_id: str, topic_id: str, ingested_at: dt.datetime
) -> pa.Table:
    """The same for rows in memory, without asking Spark."""
    size = records.num_rows
    known = {
        "cluster_id": pa.repeat(pa.scalar(cluster_id), size),
        "topic_id": pa.repeat(pa.scalar(topic_id), size),
        "ingested_at": pa.repeat(pa.scalar(ingested_at, _STAMP), size),
        VOID: pa.nulls(size, pa.string()),
    }
    for name, column in known.items():
        records = records.append_column(name, column)
    return conform(records, bronze_schema())


class BronzeWriter:
    """The only writer of one bronze table."""

    def __init__(
        self, warehouse: Location, name: TableName, *, token: int, topic_id: str = ""
    ) -> None:
        self.name = name
        self.path = live_path(warehouse, name)
        self.topic_id = topic_id  # set by whoever ingests: a recreated topic has another one
        self.schema = bronze_schema()
        self.recent = RecentRows(32 << 20)
        DeltaLog.create(self.path, self.schema, description=f"{name}: the topic, byte for byte")
        self.log = DeltaLog.take(self.path, token)
        self.log.widen(self.schema)

    def next_offset(self, partition: int) -> int | None:
        return self.log.txn(self._app(partition))

    def ingest_time(self, now: dt.datetime) -> dt.datetime:
        """``now``, or the newest ingest time the table holds if the clock was set back since."""
        newest = self.log.txn(INGESTED)
        return now if newest is None else max(now, _EPOCH + newest * _MICROSECOND)

    def unseen(self, rows: pa.Table) -> pa.Table:
        """Without the rows an earlier commit holds already."""
        parts = rows["partition"].unique().to_pylist()
        starts = {part: self.next_offset(part) or 0 for part in parts}
        lowest = pc.min(rows["offset"]).as_py() if rows.num_rows else 0
        if all(start <= lowest for start in starts.values()):
            return rows
        keep = None
        for part, start in starts.items():
            here = pc.and_(
                pc.equal(rows["partition"], part), pc.greater_equal(rows["offset"], start)
            )
            keep = here if keep is None else pc.or_(keep, here)
        return rows.filter(keep)

    def append(
        self,
        adds: list[Action],
        ends: Mapping[int, int],
        rows: pa.Table | None,
        ingested_at: dt.datetime | None = None,
        born: float | None = None,
    ) -> int:
        """Commit files together with the next offset of each partition and their ingest time."""
        with self.log.lock:
            txns = {self._app(part): end for part, end in ends.items()}
            if ingested_at is not None:
                txns[INGESTED] = (ingested_at - _EPOCH) // _MICROSECOND
            info = {"offsets": {str(part): end for part, end in ends.items()}}
            version = self.log.commit(adds, txns, {**info, "topic_id": self.topic_id})
            if adds:
                self.recent.note(version, born)
            if rows is not None:
                self.recent.put(version, rows)
            return version

    def _app(self, partition: int) -> str:
        return f"kafka:{self.topic_id}:{partition}"
