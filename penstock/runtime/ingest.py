"""Ingest: the driving query of a topic. Kafka into bronze, nothing else.

How it works: a Spark structured streaming query hands over micro-batches; each is committed to
bronze together with the offsets it reaches to. Bronze's log is the only memory of the position:
every start uses a fresh checkpoint folder and begins at bronze's offsets, so a lost, damaged or
stale checkpoint cannot lose or double a row. Everything above bronze follows bronze's commits.
"""

from __future__ import annotations

import ast
import datetime as dt
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.errors import PenstockError
from penstock.model.stream import Stream
from penstock.runtime.bronze import (
    BronzeWriter,
    identified_frame,
    identified_rows,
    record_columns,
)
from penstock.runtime.compute import BIG_BATCH_BYTES, BIG_BATCH_ROWS
from penstock.runtime.files import spark_files, write_arrow
from penstock.runtime.kafka import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Ingest"]

MOST_OFFSETS = 500_000  # per micro-batch: bounds memory while catching up
TRIGGER = "200 milliseconds"


class Ingest:
    """One topic on its way into one bronze table."""

    def __init__(
        self,
        session: SparkSession,
        stream: Stream,
        topic: Topic,
        bronze: BronzeWriter,
        on_commit: Callable[[], None],
    ) -> None:
        self.session = session
        self.stream = stream
        self.topic = topic
        self.bronze = bronze
        self.on_commit = on_commit
        self.batches = 0
        self._record_bytes = 0.0
        self._checkpoint: Path | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        bronze.topic_id = topic.topic_id
        self.offsets = self._start_offsets()

    def _start_offsets(self) -> dict[int, int]:
        """Bronze's own position; a partition it has never seen starts at its beginning."""
        starts = {}
        for part, earliest in self.topic.earliest.items():
            known = self.bronze.next_offset(part)
            if known is not None and known < earliest:
                raise PenstockError(
                    f"{self.topic.name}/{part}: bronze has offsets up to {known}, Kafka keeps only "
                    f"those from {earliest}: {earliest - known} rows are gone from the topic.",
                    remedy="Raise the topic's retention; see docs/operating.md, Gaps.",
                )
            if known is not None and known > self.topic.latest[part]:
                raise PenstockError(
                    f"{self.topic.name}/{part} ends at {self.topic.latest[part]}, before bronze's "
                    f"offset {known}: the broker lost rows or is another one.",
                    remedy="See docs/operating.md, Gaps.",
                )
            starts[part] = earliest if known is None else known
        return starts

    # --- the query ------------------------------------------------------------------------
    def start(self, options: dict[str, str], scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._checkpoint = Path(tempfile.mkdtemp(dir=scratch, prefix=f"{self.topic.name}-"))
        begin = {self.topic.name: {str(p): o for p, o in self.offsets.items()}}
        records = (
            self.session.readStream.format("kafka")
            .options(**options)
            .option("subscribe", self.topic.name)
            .option("startingOffsets", json.dumps(begin))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", MOST_OFFSETS)
            .load()
        )
        self._query = (
            record_columns(records)
            .writeStream.queryName(f"ingest {self.stream.name}")
            .foreachBatch(self._on_batch)
            .trigger(processingTime=TRIGGER)
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )

    def check(self) -> None:
        """Raise what stopped the query, if anything did."""
        query = self._query
        if self._failure is not None:
            raise self._failure
        if query is not None and not query.isActive:
            error = query.exception()
            raise PenstockError(
                f"the query of {self.stream.name} stopped: {str(error).splitlines()[0]}"
                if error
                else f"the query of {self.stream.name} stopped."
            )

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    # --- one micro-batch ------------------------------------------------------------------
    def _on_batch(self, records: DataFrame, batch_id: int) -> None:
        assert self._checkpoint is not None  # noqa: S101
        try:
            self.take(records, _end_offsets(self._checkpoint, batch_id, self.topic.name))
        except Exception as error:
            self._failure = error  # Spark would wrap it: the worker must see what it was
            raise

    def take(self, records: DataFrame, ends: dict[int, int]) -> None:
        """Commit one micro-batch. How big it is, is known from its offsets alone."""
        count = sum(end - self.offsets.get(part, 0) for part, end in ends.items())
        if count <= 0:
            return
        identity: dict[str, Any] = {
            "cluster_id": self.topic.cluster_id,
            "topic_id": self.topic.topic_id,
            "ingested_at": dt.datetime.now(dt.UTC),
        }
        rows = None if self._is_big(count) else self._collected(records, identity)
        if rows is None:
            frame = identified_frame(records, **identity)
            adds = spark_files(frame.where(self._unseen()), self.bronze.path)
        else:
            adds = write_arrow(rows, self.bronze.path)
        self.bronze.append(adds, ends, rows)
        self.offsets = {**self.offsets, **ends}
        self.batches += 1
        self.on_commit()

    def _is_big(self, count: int) -> bool:
        """By rows, and by bytes as far as the records seen so far tell."""
        return count > BIG_BATCH_ROWS or count * self._record_bytes > BIG_BATCH_BYTES

    def _collected(self, records: DataFrame, identity: dict[str, Any]) -> pa.Table | None:
        """The records in memory; None when they turn out to be too many bytes for the driver."""
        try:
            rows = identified_rows(records.toArrow(), **identity)
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
            self._record_bytes = BIG_BATCH_BYTES  # until a batch that fits says otherwise
            return None
        if rows.num_rows:
            self._record_bytes = rows.nbytes / rows.num_rows
        return self.bronze.unseen(rows)

    def _unseen(self) -> Any:
        """The same guard as in memory, as a filter: no offset below what bronze holds."""
        condition = F.lit(True)
        for part in self.offsets:
            start = self.bronze.next_offset(part) or 0
            condition = condition & ((F.col("partition") != part) | (F.col("offset") >= start))
        return condition

    def status(self) -> dict[str, Any]:
        progress = self._query.lastProgress if self._query is not None else None
        return {
            "table": str(self.stream.name),
            "topic": self.topic.name,
            "version": self.bronze.log.version,
            "behind": self._behind(progress),
            "batches": self.batches,
            "batch_ms": dict(progress["durationMs"]) if progress else {},
        }

    def _behind(self, progress: Any) -> int | None:
        """Rows the topic has and bronze has not, as of the last look."""
        if not progress:
            return None
        # PySpark hands the offsets over as the text of a Python dict, not as JSON.
        known: dict[str, int] = ast.literal_eval(progress["sources"][0]["latestOffset"])[
            self.topic.name
        ]
        return sum(max(0, o - self.offsets.get(int(p), 0)) for p, o in known.items())


def _end_offsets(checkpoint: Path, batch_id: int, topic: str) -> dict[int, int]:
    """Where a batch ends, from the offset log Spark writes before it runs the batch."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return {int(part): int(end) for part, end in json.loads(lines[-1])[topic].items()}
