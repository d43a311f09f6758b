"""Ingest: the driving query of a group of topics. Kafka into bronze, nothing else.

How it works: one Spark structured streaming query reads all topics of the group; each micro-batch
is collected once, split by topic in the driver, and committed to each topic's bronze table together
with the offsets it reaches to. Bronze's log is the only memory of the position: every start uses a
fresh checkpoint folder and begins at bronze's offsets, so a lost, damaged or stale checkpoint
cannot lose or double a row. Everything above bronze follows bronze's commits.

A *lane* is one topic's way through the query into its table (``ingest/lane.py``). A lane whose
commit fails takes no further batch of this query, because it would skip the one it missed; the
others go on. What it does not do: start a lane again. Whoever runs the query starts another one,
with or without it.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.errors import LeaseLost, PenstockError
from penstock.runtime.delta.files import BIG_BATCH_BYTES, BIG_BATCH_ROWS
from penstock.runtime.ingest.bronze import record_columns
from penstock.runtime.ingest.lane import Lane

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "EVERY",
    "Ends",
    "Ingest",
    "READERS",
    "blamed",
    "end_offsets",
    "split_by_topic",
    "starting_offsets",
]

log = logging.getLogger("penstock.ingest")

MOST_OFFSETS = 500_000  # per micro-batch: bounds memory while catching up
EVERY = dt.timedelta(milliseconds=200)
READERS = (
    3  # tasks of a small batch: they do little but wait for the broker, partition by partition
)
_CALLED_BACK = threading.Lock()  # PySpark starts its server for callbacks at the first, unguarded
_PATIENCE = 20.0  # seconds the batch in hand has to end before its jobs are cancelled

Ends = Mapping[str, Mapping[int, int]]  # topic -> partition -> next offset


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
        with _CALLED_BACK:
            writer = record_columns(records).writeStream.foreachBatch(self._on_batch)
        self._query = (
            # Spark refuses a second query of the same name: two groups may have as many topics.
            writer.queryName(f"{len(self.lanes)} topics, {self._checkpoint.name}")
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
        except (LeaseLost, PySparkException, Py4JJavaError):
            raise
        except Exception as error:
            lane.failure = error
            self._on_trouble()
            return False
        return True

    def _collected(self, records: DataFrame, due: Mapping[Lane, int]) -> pa.Table | None:
        """The records in memory; None when they turn out to be too many bytes for the driver."""
        try:
            return records.coalesce(READERS).toArrow()
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
