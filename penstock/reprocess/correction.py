"""What an interval of a table without windows should hold, against what it holds.

**Purpose.** The part of a backfill that takes long, done apart from the table's writer.

**How it works.** The inputs are read as of the versions the table has taken in, and computed by
the batch form of its transform. An interval means, by kind: of rows, enriched and session tables
the rows whose time lies in it; of groups and keyed tables every group or key with an input row
whose time lies in it, recomputed from all its rows; each input has a time column of its own
(``timing``). The difference to the table at its own pinned version is all that is handed over.

**What it does not do.** Find rows of a group or key that no input row of the interval names: that
takes all of the table (``penstock backfill --all``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.location import Location, copies, delta_table
from penstock.model.definition import Table
from penstock.model.kinds import Enrich, Rows
from penstock.model.stream import Stream
from penstock.model.windows import Session
from penstock.reprocess.history import Pinned
from penstock.reprocess.timing import Timing
from penstock.runtime.decode.known_schemas import KnownSchemas
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.delta.files import conform, write_arrow
from penstock.runtime.delta.source import read_files
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.late import EXPIRED
from penstock.runtime.kinds.batch import decoded_input, recompute
from penstock.runtime.kinds.prepared import to_frame
from penstock.runtime.times import moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Correction", "Held"]


@dataclass(frozen=True)
class Held:
    """The table itself at the moment it was pinned, and what was set apart from it then."""

    path: Location
    version: int
    schema: pa.Schema
    broken: pa.Table  # its quarantine
    late: pa.Table  # its late lines
    watermark: int | None = None

    def files(self) -> list[str]:
        adds = pa.table(delta_table(self.path, self.version).get_add_actions(flatten=True))
        return copies(self.path / unquote(path) for path in adds["path"].to_pylist())


class Correction:
    """One interval of one table.

    Args:
        declared: the time columns that definitions declare; see ``Timing``.
    """

    def __init__(
        self,
        session: SparkSession,
        table: Table,
        held: Held,
        inputs: Mapping[str, Pinned],
        *,
        decodes: Stream | None = None,
        schemas: SchemaRegistry | None = None,
        declared: Mapping[str, str | None] | None = None,
    ) -> None:
        self.session = session
        self.table = table
        self.held = held
        self.inputs = dict(inputs)
        self.stream = decodes
        self._schemas = schemas
        self.timing = Timing(table, declared or {})

    def written(self, start: int, end: int, on: str | None, into: Path) -> dict[str, Any]:
        """Compute ``[start, end)``, in microseconds; returns files of what comes and goes."""
        into.mkdir(parents=True, exist_ok=True)
        new, old = self._sides(start, end, on)
        new, old = new.persist(), old.persist()
        try:
            added = conform(new.exceptAll(old).toArrow(), self.held.schema)
            gone = conform(old.exceptAll(new).toArrow(), self.held.schema)
            results = new.count()
        finally:
            new.unpersist()
            old.unpersist()
        files = {
            word: [str(into / a["add"]["path"]) for a in write_arrow(rows, into)]
            for word, rows in (("added", added), ("gone", gone))
        }
        return {**files, "results": results, "version": self.held.version}

    def _sides(self, start: int, end: int, on: str | None) -> tuple[DataFrame, DataFrame]:
        frames = {argument: self._frame(argument) for argument in self.inputs}
        names = self.held.schema.names
        kind = self.table.kind
        until = self.held.watermark if isinstance(kind, Session) else None
        new = recompute(self.table, frames, until=until).select(*names)
        old = self._read(self.held.files(), self.held.schema)
        if isinstance(kind, Rows | Enrich | Session):
            within = _within(self.timing.of_rows(_times(self.held.schema), on), start, end)
            return new.where(within), old.where(within)
        keys = self._touched(frames, start, end, on)
        return _semi(new, keys), _semi(old, keys)

    # --- which rows are meant ------------------------------------------------------------------
    def _touched(
        self, frames: Mapping[str, DataFrame], start: int, end: int, on: str | None
    ) -> DataFrame:
        """Groups or keys with an input row in the interval."""
        by = list(self.table.kind.by)  # type: ignore[attr-defined]
        parts = []
        for argument, frame in frames.items():
            times = [f.name for f in frame.schema if f.dataType.typeName() == "timestamp"]
            column = self.timing.of_input(argument, times, on)
            some = {a: f.limit(0) for a, f in frames.items()}
            some[argument] = frame.where(_within(column, start, end))
            # A group's columns are its inputs'; a key may be made by the transform.
            groups = all(name in frame.columns for name in by) and self.table.kind.word == "group"
            rows = some[argument] if groups else self.table(**some)
            parts.append(rows.select(*by))
        return reduce(lambda a, b: a.unionByName(b), parts).distinct()

    # --- what is read ---------------------------------------------------------------------------
    def _frame(self, argument: str) -> DataFrame:
        given = self.inputs[argument]
        files = copies(file.path for file in given.files(None)) if given.version >= 0 else []
        rows = self._read(files, given.schema)
        broken = self.held.broken.filter(
            pa.array([s == given.name for s in self.held.broken["source"].to_pylist()], pa.bool_())
        )
        if self.stream is not None:
            assert self._schemas is not None  # noqa: S101
            known = KnownSchemas(self.stream, self._schemas)
            known.learn_from(rows)
            return decoded_input(rows, self.stream, known.writers, self.table.dedupe, broken)
        expired = self.held.late.filter(
            pa.array([s == EXPIRED for s in self.held.late["status"].to_pylist()], pa.bool_())
        )
        if broken.num_rows or expired.num_rows:  # named by digests that only we can compute
            return self._sound(files, given, broken, expired)
        return rows

    def _sound(
        self, files: Sequence[str], given: Pinned, broken: pa.Table, expired: pa.Table
    ) -> DataFrame:
        """The rows without those that are in quarantine or expired; through memory."""
        parts = read_files([Path(file) for file in files], given.schema)
        rows = pa.concat_tables([given.schema.empty_table(), *parts])
        rows = late_lines.excused(rows, expired, given.name)
        return to_frame(self.session, quarantine.sound(rows, set(broken["row_id"].to_pylist())))

    def _read(self, files: Sequence[str], schema: pa.Schema) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = from_arrow_schema(schema)
        if not files:
            return self.session.createDataFrame([], wanted)
        return self.session.read.schema(wanted).parquet(*files).select(*schema.names)


def _times(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_timestamp(field.type)]


def _within(column: str, start: int, end: int) -> Column:
    at = F.col(column)
    return (at >= F.lit(moment(start))) & (at < F.lit(moment(end)))


def _semi(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows whose values are among the keys, null being equal to null."""
    named = keys.select(*(F.col(name).alias(f"_key_{name}") for name in keys.columns))
    same = [rows[name].eqNullSafe(named[f"_key_{name}"]) for name in keys.columns]
    return rows.join(F.broadcast(named), reduce(lambda a, b: a & b, same), "left_semi")
