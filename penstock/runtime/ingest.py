"""Ingest: the driving query of a group of topics. Kafka into bronze, nothing else.

How it works: one Spark structured streaming query reads all topics of the group; each micro-batch
is collected once, split by topic in the driver, and committed to each topic's bronze table together
with the offsets it reaches to. Bronze's log is the only memory of the position: every start uses a
fresh checkpoint folder and begins at bronze's offsets, so a lost, damaged or stale checkpoint
cannot lose or double a row. Everything above bronze follows bronze's commits.

A *lane* is one topic's way through the query into its table. One that nobody is in a hurry for
holds its rows in memory until a commit is due, so that one eager topic does not make a file a batch
of all the others; what a crash takes from memory is read from Kafka again. A lane whose commit
fails takes no further batch of this query, because it would skip the one it missed; the others
go on. What it does not do: start a lane again. Whoever runs the query starts another one, with
or without it.
Known limitation: Spark shares ``MOST_OFFSETS`` out by backlog, so while one topic catches up with
millions of rows the others of its group get through slowly.
"""

from __future__ import annotations

import ast
import datetime as dt
import json
import logging
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.errors import LeaseLost, PenstockError
from penstock.runtime.bronze import (
    BronzeWriter,
    identified_frame,
    identified_rows,
    record_columns,
)
from penstock.runtime.compute import BIG_BATCH_BYTES, BIG_BATCH_ROWS, BROKEN_TRANSFORM
from penstock.runtime.delta_log import Action
from penstock.runtime.files import spark_files, write_arrow
from penstock.runtime.kafka import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.model import Stream

__all__ = [
    "EVERY",
    "Ends",
    "Ingest",
    "Lane",
    "blamed",
    "end_offsets",
    "split_by_topic",
    "starting_offsets",
]

log = logging.getLogger("penstock.ingest")

MOST_OFFSETS = 500_000  # per micro-batch: bounds memory while catching up
EVERY = dt.timedelta(milliseconds=200)
_READERS = 2  # tasks of a small batch, as many as cores: one per partition costs more than it reads
_MOST_HELD = 16 << 20  # bytes of a lane's rows that wait in memory for their commit
_MOST_PIECES = 64  # and in how many tables
_PATIENCE = 20.0  # seconds the batch in hand has to end before its jobs are cancelled

Ends = Mapping[str, Mapping[int, int]]  # topic -> partition -> next offset


class Lane:
    """One topic on its way into one bronze table."""

    def __init__(
        self,
        stream: Stream,
        topic: Topic,
        bronze: BronzeWriter,
        every: dt.timedelta = dt.timedelta(0),
    ) -> None:
        self.name = str(stream.name)
        self.topic = topic
        self.bronze = bronze
        self.every = every  # how long rows may wait before they are committed
        self.batches = 0
        self.record_bytes = 0.0  # of a record in memory, as far as those seen so far tell
        self.failure: Exception | None = None
        bronze.topic_id = topic.topic_id
        self.offsets = _start_offsets(topic, bronze)  # what bronze holds
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._reached = dict(self.offsets)  # with what is held
        self._since = time.monotonic()  # the last commit
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
        self.bronze.append(adds, self._ends(), rows, ingested_at)
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


class Ingest:
    """One query over the lanes of a group."""

    def __init__(
        self,
        session: SparkSession,
        lanes: list[Lane],
        on_commit: Callable[[str], None],
        *,
        every: dt.timedelta = EVERY,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        self.session = session
        self.lanes = lanes
        self.every = every
        self._on_commit = on_commit
        self._on_trouble = on_trouble
        self._checkpoint: Path | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self._leaving = False
        self._taking = threading.Lock()  # held while a batch is in hand

    # --- the query ------------------------------------------------------------------------
    def start(self, options: Mapping[str, str], scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._checkpoint = Path(tempfile.mkdtemp(dir=scratch, prefix="ingest-"))
        records = (
            self.session.readStream.format("kafka")
            .options(**options)
            .option("subscribe", ",".join(sorted({lane.topic.name for lane in self.lanes})))
            .option("startingOffsets", starting_offsets(self.lanes))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", MOST_OFFSETS)
            .load()
        )
        self._query = (
            record_columns(records)
            .writeStream.queryName(f"ingest of {len(self.lanes)} topics")
            .foreachBatch(self._on_batch)
            .trigger(processingTime=f"{max(1, self.every // _MILLISECOND)} milliseconds")
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )

    @property
    def running(self) -> bool:
        """True while batches keep coming."""
        return self._failure is None and self._query is not None and self._query.isActive

    def trouble(self) -> dict[str, Exception]:
        """Which lanes cannot go on, by stream, and why; nothing while all is well."""
        found = {lane.name: lane.failure for lane in self.lanes if lane.failure is not None}
        error = self._failure or self._ended_by()
        return found if error is None else dict.fromkeys(blamed(error, self.lanes), error) | found

    def _ended_by(self) -> Exception | None:
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        told = f": {error}" if error else "."
        return PenstockError(f"the query that reads the topics stopped{told}")

    def stop(self) -> None:
        """Let the batch in hand end and be committed, then end the query for good."""
        self._leaving = True
        if self._taking.acquire(timeout=_PATIENCE):
            self._taking.release()
        if self._query is not None:
            self._query.stop()
        with self._taking, suppress(Exception):  # no batch of this query commits after this
            self._flush(self._going())
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    # --- one micro-batch ------------------------------------------------------------------
    def _on_batch(self, records: DataFrame, batch_id: int) -> None:
        assert self._checkpoint is not None  # noqa: S101
        with self._taking:
            if self._leaving:
                return
            try:
                self.take(records, end_offsets(self._checkpoint, batch_id))
            except Exception as error:
                self._failure = error  # Spark would wrap it: whoever looks must see what it was
                self._on_trouble()
                raise

    def take(self, records: DataFrame, ends: Ends) -> None:
        """Take one micro-batch, lane by lane. How big it is, is known from its offsets alone."""
        going = self._going()
        reached = {lane: lane.fresh(ends.get(lane.topic.name, {})) for lane in going}
        due = {lane: lane.count(to) for lane, to in reached.items() if to}
        if not due:
            return
        now = dt.datetime.now(dt.UTC)
        rows = None if _is_big(due) else self._collected(records, due)
        if rows is not None:
            parts = split_by_topic(rows)
            for lane in due:
                # Offsets may move without a row; and a slice of none would keep all the others.
                own = parts.get(lane.topic.name, rows.schema.empty_table())
                self._for_lane(lane, lane.take_rows, own, reached[lane], now)
        else:
            with _kept(records, due) as held:
                for lane in due:
                    if self._for_lane(lane, lane.take_frame, held, reached[lane], now):
                        self._on_commit(lane.name)
        self._flush([lane for lane in self._going() if lane.is_due])

    def flush_due(self) -> None:
        """Commit rows that waited long enough while no new ones came; not while a batch does it."""
        if self._leaving or not self._taking.acquire(blocking=False):
            return
        try:
            self._flush([lane for lane in self._going() if lane.is_due])
        finally:
            self._taking.release()

    def _going(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.failure is None]

    def _flush(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            if self._for_lane(lane, lane.flush):
                self._on_commit(lane.name)

    def _for_lane(self, lane: Lane, do: Callable[..., None], *what: Any) -> bool:
        """What fails in one lane stays there; Spark and the lease are everybody's."""
        try:
            do(*what)
        except (LeaseLost, *BROKEN_TRANSFORM):
            raise
        except Exception as error:
            lane.failure = error
            self._on_trouble()
            return False
        return True

    def _collected(self, records: DataFrame, due: Mapping[Lane, int]) -> pa.Table | None:
        """The records in memory; None when they turn out to be too many bytes for the driver."""
        try:
            return records.coalesce(_READERS).toArrow()
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
        least = 1 + BIG_BATCH_BYTES / sum(due.values())  # so that the next one like it is big
        for lane in due:
            lane.record_bytes = max(lane.record_bytes, least)
        return None

    # --- what it tells --------------------------------------------------------------------
    def progress(self) -> tuple[dict[str, int], dict[str, dict[int, int]]]:
        """How long the parts of the last batch took, and where the topics ended then."""
        progress = self._query.lastProgress if self._query is not None else None
        if not progress:
            return {}, {}
        told = progress["sources"][0]["latestOffset"]
        # PySpark hands the offsets over as the text of a Python dict, not as JSON.
        latest = ast.literal_eval(told) if told else {}
        known = {t: {int(p): int(o) for p, o in ends.items()} for t, ends in latest.items()}
        return dict(progress["durationMs"]), known


_MILLISECOND = dt.timedelta(milliseconds=1)


def _is_big(due: Mapping[Lane, int]) -> bool:
    """By rows, and by bytes as far as the records seen so far tell."""
    weight = sum(count * lane.record_bytes for lane, count in due.items())
    return sum(due.values()) > BIG_BATCH_ROWS or weight > BIG_BATCH_BYTES


@contextmanager
def _kept(records: DataFrame, due: Mapping[Lane, int]) -> Iterator[DataFrame]:
    """The records, read from Kafka once however many lanes go through them."""
    if len(due) == 1:
        yield records
        return
    held = records.persist()
    try:
        yield held
    finally:
        held.unpersist()


def starting_offsets(lanes: list[Lane]) -> str:
    """Where each topic begins; Spark wants every partition of every topic named.

    Of two tables that keep the same topic the one further behind decides.
    """
    begin: dict[str, dict[str, int]] = {}
    for lane in lanes:
        starts = begin.setdefault(lane.topic.name, {})
        for part, offset in lane.offsets.items():
            starts[str(part)] = min(offset, starts.get(str(part), offset))
    return json.dumps(begin)


def end_offsets(checkpoint: Path, batch_id: int) -> dict[str, dict[int, int]]:
    """Where a batch ends, from the offset log Spark writes before it runs the batch."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    topics = json.loads(lines[-1])
    return {topic: {int(p): int(end) for p, end in ends.items()} for topic, ends in topics.items()}


def split_by_topic(rows: pa.Table) -> dict[str, pa.Table]:
    """The rows of each topic, in the order they came."""
    names = rows["topic"].unique().to_pylist()
    if len(names) == 1:
        return {names[0]: rows}
    return {name: rows.filter(pc.equal(rows["topic"], name)) for name in names}


def blamed(error: Exception, lanes: list[Lane]) -> list[str]:
    """The streams whose topic an error of the query names; all of them when it names none."""
    text = str(error)
    if isinstance(error, LeaseLost):
        return [lane.name for lane in lanes]
    denied = {name for found in _LISTED.findall(text) for name in found.split(", ")}
    named = [
        lane.name
        for lane in lanes
        if lane.topic.name in denied
        or re.search(rf"(?<![\w.-]){re.escape(lane.topic.name)}-\d+(?![\w.-]*\w)", text)
    ]
    return named or [lane.name for lane in lanes]


_LISTED = re.compile(r"topics: \[([^\]]+)\]")
