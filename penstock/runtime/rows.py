"""Tables of kind ``rows``: each input row becomes zero or more output rows by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.stream import Stream
from penstock.runtime import quarantine
from penstock.runtime.compute import (
    BIG_BATCH_BYTES,
    BIG_BATCH_ROWS,
    BROKEN_TRANSFORM,
    isolate,
    materialise,
    without,
)
from penstock.runtime.decode import decode, transform_input
from penstock.runtime.delta_log import Action
from penstock.runtime.files import conform, spark_files, write_arrow
from penstock.runtime.follow import Follower, TableContext
from penstock.runtime.prepared import Prepared
from penstock.runtime.schemas import SchemaRegistry
from penstock.runtime.source import Batch, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ContractFollower", "RowsFollower"]


@dataclass
class Split:
    """What a batch came to: files of good rows and of bad ones, and the good rows if in memory."""

    good: list[Action]
    bad: list[Action]
    rows: pa.Table | None = None


class RowsFollower(Follower):
    """A rows table over another revision."""

    _prepared: Prepared | None = None

    def take(self, batch: Batch) -> None:
        self.commit(batch, self._split(batch))

    def _split(self, batch: Batch) -> Split:
        """Chosen before anything is collected: Spark's writers for much, memory for little."""
        if batch.count <= BIG_BATCH_ROWS and batch.size <= BIG_BATCH_BYTES:
            return self._split_small(batch.rows(self.source.schema))
        try:
            return self._split_big(self.frame_of(batch))
        except BROKEN_TRANSFORM:  # rare and slow on purpose: look at bounded slices
            return _joined([self._split_small(part) for part in self.slices_of(batch)])

    def _split_big(self, rows: DataFrame) -> Split:
        frame = self.context.definition(rows)
        return Split(materialise(frame, self.writer.schema, self.writer.path, big=True).adds, [])

    def _split_small(self, rows: pa.Table) -> Split:
        bad: list[Action] = []
        try:
            out = self._build(rows).toArrow()
        except BROKEN_TRANSFORM:
            broken = isolate(self._build, rows, self.name)
            apart = rows.take([index for index, _ in broken])
            errors = [error for _, error in broken]
            listed = quarantine.broken_rows(self.source_name, apart, errors)
            bad = write_arrow(listed, self.broken.path)
            out = self._build(without(rows, broken)).toArrow()
        good = conform(out, self.writer.schema)
        return Split(write_arrow(good, self.writer.path), bad, good)

    def _build(self, rows: pa.Table) -> DataFrame:
        if self._prepared is None:
            session, definition = self.context.session, self.context.definition
            self._prepared = Prepared(session, rows.schema, definition)
        return self._prepared.frame(rows)

    # --- shared with the contract follower ------------------------------------------------
    def commit(self, batch: Batch, split: Split) -> None:
        """Bad rows first: a row must be somewhere before the table goes past it."""
        self.set_apart(split.bad, batch.to)
        at = {self.source_name: batch.to}
        self.writer.append(split.good, at, {"rows_in": batch.count}, split.rows)

    def frame_of(self, batch: Batch) -> DataFrame:
        """The batch as Spark reads it: files where there are files."""
        session = self.context.session
        held = [session.createDataFrame(pa.concat_tables(batch.tables))] if batch.tables else []
        if not batch.files:
            return held[0]
        names = self.source.schema.names
        frame = session.read.parquet(*map(str, batch.files)).select(*names)
        return frame.unionByName(held[0]) if held else frame

    def slices_of(self, batch: Batch) -> Iterator[pa.Table]:
        rows = batch.rows(self.source.schema)
        for start in range(0, rows.num_rows, BIG_BATCH_ROWS // 2):
            yield rows.slice(start, BIG_BATCH_ROWS // 2)


class ContractFollower(RowsFollower):
    """A rows table over a stream: decodes by contract, sets apart what breaks it."""

    def __init__(
        self, context: TableContext, source: Source, stream: Stream, schemas: SchemaRegistry
    ) -> None:
        super().__init__(context, source, str(stream.name))
        self.stream = stream
        self.schemas = schemas
        self.writers: dict[int, str] = {}

    def _split_small(self, rows: pa.Table) -> Split:
        """One Spark job answers both which rows are good and what they become."""
        self._learn(_schema_ids(rows))
        apart = quarantine.SCHEMA.empty_table()
        try:
            answer = self._judged(rows).toArrow()
        except BROKEN_TRANSFORM:
            broken = isolate(self._judged, rows, self.name)
            bronze = rows.take([index for index, _ in broken])
            errors = [error for _, error in broken]
            apart = quarantine.broken_bronze_rows(self.source_name, bronze, errors)
            answer = self._judged(without(rows, broken)).toArrow()
        good = _unpacked(answer, "good", self.writer.schema)
        bad = pa.concat_tables([_unpacked(answer, "bad", quarantine.SCHEMA), apart])
        return Split(write_arrow(good, self.writer.path), write_arrow(bad, self.broken.path), good)

    def _judged(self, rows: pa.Table) -> DataFrame:
        """Good rows transformed, and bad ones as quarantine keeps them, in one frame."""
        rows = rows.drop_columns("headers")
        if self._prepared is None:
            self._prepared = Prepared(self.context.session, rows.schema, self._both_sides)
        return self._prepared.frame(rows)

    def _both_sides(self, bronze: DataFrame) -> DataFrame:
        decoded = decode(bronze, self.stream, self.writers)
        good = self.context.definition(transform_input(decoded, self.stream))
        bad = quarantine.condemned(decoded, self.source_name)
        return _side(good, "good", bad, "bad").unionByName(_side(bad, "bad", good, "good"))

    def _split_big(self, bronze: DataFrame) -> Split:
        """Spark reads bronze's files and writes ours."""
        ids = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("long")
        framed = bronze.where((F.length("value") >= 5) & (F.substring("value", 1, 1) == b"\x00"))
        self._learn({row[0] for row in framed.select(ids).distinct().collect()})
        decoded = decode(bronze, self.stream, self.writers)
        out = self.context.definition(transform_input(decoded, self.stream))
        good = materialise(out, self.writer.schema, self.writer.path, big=True)
        bad = spark_files(quarantine.condemned(decoded, self.source_name), self.broken.path)
        return Split(good.adds, bad)

    def _learn(self, ids: set[int]) -> None:
        """Look up writer schemas not met before; fails, to be tried again, while nobody answers."""
        for schema_id in ids - set(self.writers):
            writer = self.schemas.writer(schema_id)
            if writer is not None:
                self.writers = {**self.writers, schema_id: writer}
                self._prepared = None  # the plan names every writer it can read


def _joined(splits: list[Split]) -> Split:
    return Split([a for s in splits for a in s.good], [a for s in splits for a in s.bad])


def _side(filled: DataFrame, own: str, absent: DataFrame, other: str) -> DataFrame:
    """One half of the union: its own columns filled, the other half's null."""
    return filled.select(
        F.lit(own).alias("side"),
        *(F.col(name).alias(f"{own}.{name}") for name in filled.columns),
        *(
            F.lit(None).cast(field.dataType).alias(f"{other}.{field.name}")
            for field in absent.schema
        ),
    )


def _unpacked(answer: pa.Table, side: str, schema: pa.Schema) -> pa.Table:
    """The rows of one half, as a table of their own."""
    held = answer.filter(pc.equal(answer["side"], side))
    arrays = [held[f"{side}.{name}"] for name in schema.names]
    return conform(pa.Table.from_arrays(arrays, names=schema.names), schema)


def _schema_ids(rows: pa.Table) -> set[int]:
    """The schema ids that stand in the rows' headers."""
    heads = pc.unique(pc.binary_slice(rows["value"], 0, 5)).to_pylist()
    return {int.from_bytes(h[1:], "big") for h in heads if h and len(h) == 5 and h[0] == 0}
