"""A lane: one topic's way through the ingest query into its bronze table.

A lane that nobody is in a hurry for holds its rows in memory until a commit is due, so that one
eager topic does not make a file a batch of all the others. What a crash takes from memory is read
from Kafka again: bronze's log is the only memory of the position.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.errors import PenstockError
from penstock.runtime.delta.files import spark_files, write_arrow
from penstock.runtime.delta.log import Action
from penstock.runtime.ingest.bronze import BronzeWriter, identified_frame, identified_rows
from penstock.runtime.kafka import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.model import Stream

__all__ = ["Lane"]

_MOST_HELD = 16 << 20  # bytes of rows that wait in memory for their commit
_MOST_PIECES = 64  # and in how many tables


class Lane:
    """One topic on its way into one bronze table."""

    def __init__(
        self,
        stream: Stream,
        topic: Topic,
        bronze: BronzeWriter,
        every: dt.timedelta = dt.timedelta(0),
        unread: dt.timedelta = dt.timedelta(0),
    ) -> None:
        self.name = str(stream.name)
        self.topic = topic
        self.bronze = bronze
        self.every = every  # how long rows may wait before they are committed
        self._unread = unread.total_seconds()  # how long a row may have waited to be read
        self.batches = 0
        self.record_bytes = 0.0  # of a record in memory, as far as those seen so far tell
        self.failure: Exception | None = None
        bronze.topic_id = topic.topic_id
        self.offsets = _start_offsets(topic, bronze)  # what bronze holds
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._reached = dict(self.offsets)  # with what is held
        self._since = self._born = time.monotonic()  # the last commit; the oldest row held
        self._newest = dt.datetime.min.replace(tzinfo=dt.UTC)  # ingest time of what is held

    def go_on_from(self, before: Lane) -> None:
        """Keep the counts of an earlier query over the same topic."""
        self.batches, self.record_bytes = before.batches, before.record_bytes

    def fresh(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Of these ends those that lie beyond what has come through here."""
        return {part: end for part, end in ends.items() if end > self._reached.get(part, 0)}

    def count(self, ends: Mapping[int, int]) -> int:
        """How many offsets lie between what has come through here and these ends."""
        return sum(end - self._reached.get(part, 0) for part, end in self.fresh(ends).items())

    def behind(self, ends: Mapping[int, int]) -> int:
        """How many offsets lie between bronze and these ends."""
        return sum(max(0, end - self.offsets.get(part, 0)) for part, end in ends.items())

    # --- one micro-batch ------------------------------------------------------------------
    def take_rows(self, records: pa.Table, ends: Mapping[int, int], now: dt.datetime) -> None:
        """Take this topic's records, held in memory; they are committed when that is due."""
        rows = identified_rows(records, **self._identity(now))
        if rows.num_rows:
            self.record_bytes = rows.nbytes / rows.num_rows
        if not self._held:
            self._born = time.monotonic() - self._unread
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if len(self._held) >= _MOST_PIECES:  # small tables weigh far more than their rows
            self._held = [pa.concat_tables(self._held).combine_chunks()]
        self._reached |= ends

    def take_frame(self, records: DataFrame, ends: Mapping[int, int], now: dt.datetime) -> None:
        """The same, written by Spark at once; the records may be of several topics."""
        self.flush()
        identity = self._identity(now)
        own = records.where((F.col("topic") == self.topic.name) & self._unseen())
        adds = spark_files(identified_frame(own, **identity), self.bronze.path)
        self._reached |= ends
        self._born = time.monotonic()
        self._commit(adds, None, identity["ingested_at"])

    @property
    def is_due(self) -> bool:
        """Are there rows that have waited long enough, or too many to wait?"""
        if not self._held:
            return False
        waited = time.monotonic() - self._since >= self.every.total_seconds()
        return waited or self._held_bytes > _MOST_HELD

    def flush(self) -> None:
        """Commit what is held."""
        if not self._held:
            return
        rows = self.bronze.unseen(pa.concat_tables(self._held).combine_chunks())
        newest = pc.max(rows["ingested_at"]).as_py() if rows.num_rows else None
        self._commit(write_arrow(rows, self.bronze.path), rows, newest)
        self._held, self._held_bytes = [], 0

    def _identity(self, now: dt.datetime) -> dict[str, Any]:
        self._newest = max(self.bronze.ingest_time(now), self._newest)
        return {
            "cluster_id": self.topic.cluster_id,
            "topic_id": self.topic.topic_id,
            "ingested_at": self._newest,
        }

    def _unseen(self) -> Any:
        """The same guard as in memory, as a filter: no offset below what bronze holds."""
        condition = F.lit(True)
        for part in self.offsets:
            start = self.bronze.next_offset(part) or 0
            condition = condition & ((F.col("partition") != part) | (F.col("offset") >= start))
        return condition

    def _commit(
        self, adds: list[Action], rows: pa.Table | None, ingested_at: dt.datetime | None
    ) -> None:
        self.bronze.append(adds, self._ends(), rows, ingested_at, self._born)
        self.offsets = dict(self._reached)
        self._since = time.monotonic()
        self.batches += 1

    def _ends(self) -> dict[int, int]:
        """The partitions that moved, and how far."""
        known = self.offsets
        return {part: end for part, end in self._reached.items() if end != known.get(part, 0)}


def _start_offsets(topic: Topic, bronze: BronzeWriter) -> dict[int, int]:
    """Bronze's own position; a partition it has never seen starts at its beginning."""
    starts = {}
    for part, earliest in topic.earliest.items():
        known = bronze.next_offset(part)
        if known is not None and known < earliest:
            raise PenstockError(
                f"{topic.name}/{part}: bronze has offsets up to {known}, Kafka keeps only "
                f"those from {earliest}: {earliest - known} rows are gone from the topic.",
                remedy="Raise the topic's retention; see docs/operating.md, Gaps.",
            )
        if known is not None and known > topic.latest[part]:
            raise PenstockError(
                f"{topic.name}/{part} ends at {topic.latest[part]}, before bronze's "
                f"offset {known}: the broker lost rows or is another one.",
                remedy="See docs/operating.md, Gaps.",
            )
        starts[part] = earliest if known is None else known
    return starts
