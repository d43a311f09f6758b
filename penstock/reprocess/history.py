"""Building a candidate's history as a batch, piece by piece, in a Spark application of its own.

**Purpose.** A changed transformation has to be run over everything the input holds. Read from
files, by Spark, that is many times faster than following commit by commit.

**How it works.** The inputs are pinned to a version each. A timed table is cut by event time into
pieces of some millions of input rows; any other kind is one piece. Each piece is computed by the
same ``recompute`` that parity tests hold equal to the stream, written to the candidate's folder
and noted in its workshop (``runtime/kinds/history.py``), from where the writer takes it over.

**What it does not do.** Quarantine: a row that breaks the transform fails the build, and the
candidate then follows its input from the beginning instead, which isolates such rows. Tables that
decode a stream, and sessions, always do. An interval of a table that has a quarantine is computed
without the rows that are in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.location import Location, copies, delta_table
from penstock.model.definition import Table
from penstock.model.kinds import Group, Latest, Totals
from penstock.model.windows import Session, Timed, Window
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform, spark_files, write_arrow
from penstock.runtime.delta.log import Action, DeltaLog
from penstock.runtime.delta.source import read_files
from penstock.runtime.delta.upsert import Buckets
from penstock.runtime.fates.outcomes import SCHEMA as OUTCOMES
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.batch import recompute
from penstock.runtime.kinds.compute import sliced
from penstock.runtime.kinds.geometry import Geometry, geometry_of, times_of
from penstock.runtime.kinds.history import Piece, Recipe, Workshop
from penstock.runtime.kinds.windows import assign_windows
from penstock.runtime.staging import How
from penstock.runtime.times import moment, parse_stamp

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["HistoryBuilder", "Pinned", "Progress", "how_built"]

PIECE_ROWS = 4_000_000
_EVER = 1 << 61  # beyond any real time


def how_built(table: Table, *, decodes: bool) -> str:
    """Whether a table's history is computed as a batch, or by following its input."""
    batch = isinstance(table.kind, Group | Totals | Latest | Timed)
    if decodes or not batch or isinstance(table.kind, Session):
        return How.FOLLOW
    return How.BATCH


@dataclass(frozen=True)
class _File:
    path: Location
    rows: int
    low: int | None
    high: int | None


@dataclass
class Pinned:
    """One input at one version."""

    name: str
    path: Location
    schema: pa.Schema
    version: int

    def files(self, on: str | None) -> list[_File]:
        table = delta_table(self.path, self.version)
        found = []
        for add in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            low, high = (parse_stamp(add.get(f"{end}.{on}")) for end in ("min", "max"))
            path = self.path / unquote(add["path"])
            found.append(_File(path, int(add["num_records"] or 0), low, high))
        return found


@dataclass(frozen=True)
class Progress:
    """How far a build is, after a piece."""

    done: int
    pieces: int
    rows: int  # input rows read so far, of
    of_rows: int
    rows_per_second: float
    seconds_left: float

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


class HistoryBuilder:
    """One candidate's history.

    Args:
        into: the folder of the candidate's table, which is made if it is not there.
        beside: that of its outcomes.
        inputs: by argument of its function.
        since: where it begins, in microseconds; None: at the beginning.
        condemned: rows of its first input that are in the table's quarantine already.
    """

    def __init__(
        self,
        session: SparkSession,
        table: Table,
        *,
        into: Location,
        beside: Location,
        schema: pa.Schema,
        inputs: Mapping[str, Pinned],
        since: int | None = None,
        piece_rows: int = PIECE_ROWS,
        condemned: Iterable[str] = (),
    ) -> None:
        self.session = session
        self._condemned = set(condemned)
        self.table = table
        self.schema = schema
        self.inputs = dict(inputs)
        self._since = since
        self._piece_rows = piece_rows
        self.path = into
        self.beside = beside
        DeltaLog.create(into, schema, description=str(table.name))
        DeltaLog.create(beside, OUTCOMES, description=str(table.name.outcomes))
        self.shop = Workshop(self.path)
        kind = table.kind
        self._times = times_of(kind, list(table.inputs)) if isinstance(kind, Timed) else {}
        self._files = {a: p.files(self._times.get(a)) for a, p in self.inputs.items()}
        self._geometry: Geometry | None = None
        if isinstance(kind, Timed):
            self._geometry = geometry_of(kind, list(table.inputs))

    # --- all of it --------------------------------------------------------------------------
    def run(self, tell: Callable[[Progress], bool]) -> None:
        """Build what is missing; ``tell`` hears of every piece and says whether to go on.

        It ends early, too, where its recipe does not hold any more.
        """
        recipe = self.shop.recipe or self.shop.begin(self._recipe())
        pinned = {p.name: p.version for p in self.inputs.values()}
        if recipe.inputs != pinned:
            raise AssertionError(f"{self.table.name}: pinned to {pinned}, not {recipe.inputs}")
        count, total = recipe.pieces, sum(f.rows for fs in self._files.values() for f in fs)
        read, began, fresh = 0, time.monotonic(), 0
        for number in range(count):
            piece = self.shop.piece(recipe, number)
            if piece is None:
                piece = self._built(recipe, number)
                if not self.shop.put(recipe, number, piece):
                    return
                fresh += piece.rows_in
            read += piece.rows_in
            rate = fresh / max(time.monotonic() - began, 1e-6)
            left = max(total - read, 0) / rate if rate else 0.0
            if not tell(Progress(number + 1, count, min(read, total), total, round(rate), left)):
                return

    def _recipe(self) -> Recipe:
        inputs = {p.name: p.version for p in self.inputs.values()}
        rows = {self.inputs[a].name: sum(f.rows for f in fs) for a, fs in self._files.items()}
        if self._geometry is None:
            return Recipe(inputs, {}, [], rows)
        rows = {name: number * self._geometry.weight for name, number in rows.items()}
        bounds = {a: self._bounds(a) for a in self.inputs}
        clocks = {self.inputs[a].name: high for a, (_, high) in bounds.items() if high is not None}
        told = {f"clock:{name}": clock for name, clock in clocks.items()}
        kind = self.table.kind
        assert isinstance(kind, Timed)  # noqa: S101
        if len(clocks) < len(self.inputs):  # not every input has a row: nothing is final
            return Recipe(inputs, told, [-_EVER, _EVER], rows, self._since)
        told["watermark"] = min(clocks.values()) - kind.us("lateness")
        lows = [low - self._geometry.back(a) for a, (low, _) in bounds.items() if low is not None]
        return Recipe(inputs, told, self._edges(min(lows)), rows, self._since)

    def _bounds(self, argument: str) -> tuple[int | None, int | None]:
        at = F.unix_micros(self._times[argument])
        frame = self._read(argument, [f.path for f in self._files[argument]])
        row = frame.agg(F.min(at), F.max(at)).first()
        return (None, None) if row is None else (row[0], row[1])

    def _edges(self, first: int) -> list[int]:
        """Where to cut: so that pieces have about as many rows each, between two results."""
        argument = next(iter(self.inputs))
        start = first if self._since is None else max(first, self._since)
        edges, gathered = [self._aligned(start, up=self._since is not None)], 0
        for file in sorted(self._files[argument], key=lambda f: f.low or first):
            gathered += file.rows
            if gathered >= self._piece_rows and file.high is not None:
                edge = self._aligned(file.high)
                if edge > edges[-1]:
                    edges.append(edge)
                    gathered = 0
        return [*edges, _EVER]

    def _aligned(self, at: int, *, up: bool = False) -> int:
        kind = self.table.kind
        if not isinstance(kind, Window):
            return at
        every, offset = kind.us("every"), kind.us("offset")
        down = at - (at - offset) % every
        return down + every if up and down < at else down

    def interval(self, start: int, end: int) -> Piece:
        """Final results of ``[start, end)`` alone."""
        frames, rows_in = self._frames(start, end)
        if not rows_in:
            return Piece([])
        out = recompute(self.table, frames, interval=(start, end))
        adds = spark_files(out.select(*self.schema.names), self.path)
        return Piece(adds, rows_in=rows_in, rows_out=_records(adds))

    # --- one piece ----------------------------------------------------------------------------
    def _built(self, recipe: Recipe, number: int) -> Piece:
        began = time.monotonic()
        if self._geometry is not None:
            start, end = recipe.edges[number], recipe.edges[number + 1]
            piece = self._timed(recipe, start, end)
        else:
            piece = self._whole()
        return replace(piece, seconds=round(time.monotonic() - began, 3))

    def _timed(self, recipe: Recipe, start: int, end: int) -> Piece:
        assert self._geometry is not None  # noqa: S101
        kind, until = self.table.kind, recipe.clocks.get("watermark")
        assert isinstance(kind, Timed)  # noqa: S101
        frames, rows_in = self._frames(start, end)
        adds: list[Action] = []
        limit = -_EVER if until is None else self._geometry.limit(until)
        if rows_in and start < limit:
            out = recompute(self.table, frames, until=until, interval=(start, min(end, limit)))
            adds += spark_files(out.select(*self.schema.names), self.path)
        if rows_in and kind.updates and end > limit:
            bound = -_EVER if until is None else until
            span = (max(start, limit), end)
            out = recompute(self.table, frames, until=bound, interval=span)
            adds += write_arrow(conform(out.toArrow(), self.schema), self.path, "open")
        outcomes, counted = self._counted(frames, start, end) if rows_in else ([], {})
        return Piece(adds, outcomes, counted, rows_in, _records(adds))

    def _frames(self, start: int, end: int) -> tuple[dict[str, DataFrame], int]:
        """The rows that results in ``[start, end)`` may need."""
        assert self._geometry is not None  # noqa: S101
        frames, rows_in = {}, 0
        for argument in self.inputs:
            low = start - self._geometry.ahead(argument)
            high = end + self._geometry.back(argument)
            files = [
                f
                for f in self._files[argument]
                if (f.high is None or f.high >= low) and (f.low is None or f.low < high)
            ]
            rows_in += sum(f.rows for f in files)
            at = F.col(self._times[argument])
            frame = self._read(argument, self._sound(argument, files))
            if low > -_EVER // 2:
                frame = frame.where(at >= F.lit(moment(low)))
            if high < _EVER // 2:
                frame = frame.where(at < F.lit(moment(high)))
            frames[argument] = frame
        return frames, rows_in

    def _sound(self, argument: str, files: Sequence[_File]) -> list[Location]:
        """The files, and of those with condemned rows a copy without them.

        Such rows are named by digests that only we can compute: that takes a while, and memory for
        one file.
        """
        paths = [file.path for file in files]
        if not self._condemned or argument != next(iter(self.inputs)):
            return paths
        found: list[Location] = []
        for path in paths:
            (rows,) = read_files([path], self.inputs[argument].schema)
            kept = pa.concat_tables(sound(some, self._condemned) for some in sliced(rows))
            same = kept.num_rows == rows.num_rows
            adds = [] if same else write_arrow(kept, self.path, "sound")
            found += [path] if same else [self.path / add["add"]["path"] for add in adds]
        return found

    def _counted(
        self, frames: Mapping[str, DataFrame], start: int, end: int
    ) -> tuple[list[Action], dict[str, int]]:
        """What became of the rows: each counts for every result it is accounted for at."""
        parts, counted = [], {}
        for argument, frame in frames.items():
            points = self._points(argument, frame).where(F.col("_p").between(start, end - 1))
            rows = points.groupBy("_p").count().toArrow()
            name = self.inputs[argument].name
            counted[name] = int(sum(rows["count"].to_pylist()))
            size = rows.num_rows
            columns: list[Any] = [
                pa.repeat(name, size),
                rows["_p"].cast(pa.int64()).cast(OUTCOMES.field("window_start").type),
                pa.repeat(Outcome.COUNTED.value, size),
                rows["count"],
                pa.nulls(size, pa.int64()),
            ]
            parts.append(pa.table(columns, names=OUTCOMES.names).cast(OUTCOMES))
        return write_arrow(pa.concat_tables(parts), self.beside), counted

    def _points(self, argument: str, frame: DataFrame) -> DataFrame:
        """The points each row is accounted for at."""
        assert self._geometry is not None  # noqa: S101
        on, kind = self._times[argument], self.table.kind
        timed = frame.where(F.col(on).isNotNull()).select(on)
        if isinstance(kind, Window):
            return assign_windows(timed, kind).select(F.unix_micros("window_start").alias("_p"))
        back = self._geometry.back(argument)
        return timed.select((F.unix_micros(on) - F.lit(back)).alias("_p"))

    def _whole(self) -> Piece:
        """A table without time: everything at once, laid out as its writer will."""
        frames = {a: self._read(a, [f.path for f in fs]) for a, fs in self._files.items()}
        rows = conform(recompute(self.table, frames).toArrow(), self.schema)
        kind = self.table.kind
        assert isinstance(kind, Group | Totals | Latest)  # noqa: S101
        buckets = Buckets(self.path, 0, self.schema, self.table.keys, kind.by)
        adds = buckets.rewrite(Change(rows))
        sizes = {a: sum(f.rows for f in fs) for a, fs in self._files.items()}
        counted = {self.inputs[a].name: self._mapped(a, frames, n) for a, n in sizes.items()}
        lines = [
            {"input": name, "outcome": Outcome.COUNTED.value, "rows": number}
            for name, number in counted.items()
            if number
        ]
        outcomes = write_arrow(pa.Table.from_pylist(lines, schema=OUTCOMES), self.beside)
        return Piece(adds, outcomes, counted, sum(sizes.values()), rows.num_rows)

    def _mapped(self, argument: str, frames: Mapping[str, DataFrame], rows: int) -> int:
        """How many rows of an input count; of a group all do."""
        if isinstance(self.table.kind, Group) or rows == 0:
            return rows
        empty = {a: f.limit(0) if a != argument else f for a, f in frames.items()}
        return min(rows, int(self.table(**empty).count()))

    def _read(self, argument: str, files: list[Location]) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(self.inputs[argument].schema)
        if not files:
            return self.session.createDataFrame([], schema)
        names: list[Column] = [F.col(name) for name in schema.names]
        return self.session.read.schema(schema).parquet(*copies(files)).select(*names)


def _records(adds: list[Action]) -> int:
    return int(sum(json.loads(action["add"]["stats"])["numRecords"] for action in adds))
