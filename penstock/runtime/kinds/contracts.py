"""From a stream's bytes to a table's rows: decoded by contract, deduplicated, transformed.

Of a few rows, one Spark job answers both which are good and what they become; it looks at every
row twice, which costs less than a second job. Of many rows each is decoded and judged once, and a
second job transforms the good ones. A table that deduplicates always takes the second way, because
which rows are duplicates is decided in between.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.definition import Table
from penstock.model.stream import Stream
from penstock.runtime.decode.expression import ErrorClass, decode, input_columns, transform_input
from penstock.runtime.decode.known_schemas import KnownSchemas
from penstock.runtime.decode.python import read_here
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.source import Source, newest, rows_between
from penstock.runtime.delta.store import Store
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.compute import BROKEN_TRANSFORM, isolate, without
from penstock.runtime.kinds.dedupe import SeenKeys, as_they_came
from penstock.runtime.kinds.mapping import Calculation, Mapped, Mapper, Revised
from penstock.runtime.kinds.prepared import Prepared
from penstock.runtime.times import moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ContractMapper", "DedupeMapper"]


# A topic that was made again repeats its offsets; the time of ingest tells them apart.
Place = tuple[int, int, dt.datetime]
_PLACE = ("partition", "offset", "ingested_at")
MANY_ROWS = 5_000  # from here on a second job costs less than judging every row twice


class ContractMapper(Mapper):
    """Bronze rows of one stream into rows of one table."""

    def __init__(
        self,
        session: SparkSession,
        definition: Table,
        stream: Stream,
        schemas: SchemaRegistry,
        output: pa.Schema,
        *,
        typed: pa.Schema,
    ) -> None:
        self.session = session
        self.definition = definition
        self.stream = stream
        self.schemas = schemas
        self.output = output
        self.known = KnownSchemas(stream, schemas)
        self._typed = typed
        self._calculation = Calculation(
            session, {"typed": typed}, self._transformed, output, str(definition.name)
        )
        self._prepared: dict[tuple[str, ...], Prepared] = {}  # by the job, what is known of a row

    def map(self, rows: pa.Table, *, again: bool = False) -> Mapped:
        if rows.num_rows >= MANY_ROWS:
            typed, bad = self._decoded(rows)
            return self._finished(rows, typed, typed, bad)
        self._learn(rows)
        good, bad = self._judge(rows, self._both, self.output)
        return Mapped(good, bad)

    def _decoded(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Good rows as the transform sees them, bad ones as quarantine keeps them."""
        self._learn(rows)
        return self._judge(rows, self._either, self._typed)

    def _learn(self, rows: pa.Table) -> None:
        if self.known.learn(rows):
            self._prepared = {}  # the plan names every writer it can read

    def _finished(self, rows: pa.Table, typed: pa.Table, firsts: pa.Table, bad: pa.Table) -> Mapped:
        """The firsts transformed; those that break the transform as bronze has them."""
        out, broken = self._calculation.around("typed", typed=firsts)
        if broken:
            places = _places(firsts, "_")
            errors = {places[index]: error for index, error in broken}
            where = _places(rows)
            indices = [index for index, place in enumerate(where) if place in errors]
            apart = rows.take(pa.array(indices, pa.int64()))
            bad = pa.concat_tables([bad, self._broken(apart, [errors[where[i]] for i in indices])])
        return Mapped(out, bad, typed.num_rows - firsts.num_rows)

    def _both(self, bronze: DataFrame) -> DataFrame:
        """Good rows transformed, and bad ones below them."""
        decoded = decode(bronze, self.stream, self.known.writers)
        good = self._transformed(transform_input(decoded, self.stream))
        bad = quarantine.condemned(decoded, str(self.stream.name))
        return _side(good, "good", bad, "bad").unionByName(_side(bad, "bad", good, "good"))

    def _either(self, bronze: DataFrame) -> DataFrame:
        """Every row once: as the transform sees it, or as quarantine keeps it."""
        good = F.col("error_class").isNull()
        decoded = decode(bronze, self.stream, self.known.writers).where(~good | ~F.col("skipped"))
        seen = zip(self._typed.names, input_columns(self.stream), strict=True)
        kept = quarantine.condemned_columns(str(self.stream.name))
        return decoded.select(
            F.when(good, "good").otherwise("bad").alias("side"),
            *(F.when(good, column).alias(f"good.{name}") for name, column in seen),
            *(
                F.when(~good, column).alias(f"bad.{name}")
                for name, column in zip(quarantine.SCHEMA.names, kept, strict=True)
            ),
        )

    def _judge(
        self, rows: pa.Table, job: Callable[[DataFrame], DataFrame], schema: pa.Schema
    ) -> tuple[pa.Table, pa.Table]:
        """Good and bad rows as a job tells them apart."""

        def run(some: pa.Table) -> pa.Table:
            some = read_here(some.drop_columns("headers"), self.stream)
            known = (job.__name__, *some.schema.names)
            if known not in self._prepared:
                self._prepared[known] = Prepared(self.session, {"bronze": some.schema}, job)
            return self._prepared[known].run(bronze=some)

        apart = quarantine.SCHEMA.empty_table()
        try:
            answer = run(rows)
        except BROKEN_TRANSFORM:
            broken = isolate(run, rows, str(self.definition.name))
            bronze = rows.take(pa.array([index for index, _ in broken], pa.int64()))
            apart = self._broken(bronze, [error for _, error in broken])
            answer = run(without(rows, broken))
        good = _unpacked(answer, "good", schema)
        return good, pa.concat_tables([_unpacked(answer, "bad", quarantine.SCHEMA), apart])

    def _broken(self, bronze: pa.Table, errors: list[str]) -> pa.Table:
        return quarantine.broken_bronze_rows(str(self.stream.name), bronze, errors)

    def _transformed(self, typed: DataFrame) -> DataFrame:
        out: DataFrame = self.definition(typed)
        return out

    # --- many rows at once ----------------------------------------------------------------
    def learn_from(self, bronze: DataFrame) -> None:
        """Look up the writer schemas of rows that Spark holds."""
        if self.known.learn_from(bronze):
            self._prepared = {}

    def sides(self, bronze: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Good rows transformed and bad rows, for Spark's writers."""
        decoded = decode(bronze, self.stream, self.known.writers)
        good = self._transformed(transform_input(decoded, self.stream))
        return good, quarantine.condemned(decoded, str(self.stream.name))


class DedupeMapper(ContractMapper):
    """The same for a table that deduplicates."""

    def __init__(
        self,
        session: SparkSession,
        definition: Table,
        stream: Stream,
        schemas: SchemaRegistry,
        output: pa.Schema,
        *,
        typed: pa.Schema,
        source: Source,
        position: int,
        scratch: Path,
        seen: SeenKeys | None = None,
    ) -> None:
        super().__init__(session, definition, stream, schemas, output, typed=typed)
        assert definition.dedupe is not None  # noqa: S101
        self._newest = -1
        self._past: SeenKeys | None = None
        self._scratch = scratch
        self._source = source
        self.position = position
        self.seen = seen or SeenKeys(scratch / "seen.duckdb", definition.dedupe, typed)
        if seen is None:
            self.seen.store.bring_up(self._catch_up_store)

    def _catch_up_store(self) -> None:
        if self.seen.store.position("bronze") != self.position:
            self._fill(self._source, self.position)

    def _fill(self, source: Source, position: int) -> None:
        """Remember again what was taken in within the horizon."""
        self.seen.store.clear()
        at = newest(source, position, "ingested_at")
        self.seen.store.begin()
        if at is not None:
            start = moment(at - self.seen.dedupe.within_us - 1000)  # statistics are rounded up
            rows = as_they_came(rows_between(source, position, "ingested_at", start))
            for offset in range(0, rows.num_rows, 100_000):
                self.seen.firsts(self._decoded(rows.slice(offset, 100_000))[0])
        self.seen.store.commit({"bronze": position})

    def stores(self) -> list[Store]:
        return [self.seen.store, *([self._past.store] if self._past else [])]

    def begin(self) -> None:
        self.seen.store.begin()

    def begin_again(self) -> None:
        """What is remembered meanwhile is nobody else's."""
        if self._past is None:
            self._past = SeenKeys(self._scratch / "past.duckdb", self.seen.dedupe, self._typed)
        self._past.store.clear()

    def done(self, position: int) -> None:
        self.position = position
        self.seen.forget(self._newest)
        self.seen.store.commit({"bronze": position})

    def map(self, rows: pa.Table, *, again: bool = False) -> Mapped:
        typed, bad = self._decoded(rows)
        if rows.num_rows:
            self._newest = max(self._newest, pc.max(rows["ingested_at"].cast(pa.int64())).as_py())
        seen = self._past if again and self._past is not None else self.seen
        return self._finished(rows, typed, seen.firsts(typed), bad)

    def replayed(self, rows: pa.Table, held: pa.Table) -> Mapped:
        """A row that broke the transform was the first of its key already. One that broke the
        contract is a duplicate if another row of its key counted within the horizon of it, before
        or after: that one is in the table, and stays."""
        typed, bad = self._decoded(rows)
        known = pc.equal(held["error_class"], ErrorClass.TRANSFORM.value)
        firsts = set(_places(held.filter(known)))
        mine = _places(typed, "_")
        apart = set(_places(held.filter(pc.invert(known))))
        near, _ = self._near(typed, apart)
        keep = self.seen.apart_from(typed, near, [place in firsts for place in mine])
        self.seen.firsts(keep)  # remembered from now on
        return self._finished(rows, typed, keep, bad)

    def revise(self, change: Change, held: pa.Table) -> Revised:
        """Whether a row is a duplicate hangs on the one before it, so neighbours are judged again.

        Rows that broke the contract never took part; those that broke the transform did, and stay
        in quarantine.
        """
        assert change.gone is not None  # noqa: S101
        transform = pc.equal(held["error_class"], ErrorClass.TRANSFORM.value)
        contract = held.filter(pc.invert(transform))
        known = sound(change.gone, set(contract["row_id"].to_pylist()))
        gone, unread = self._decoded(known)
        added, bad = self._decoded(change.added)
        both = pa.concat_tables([gone, added])
        apart = set(_places(contract))
        near, rows = self._near(both, apart)
        old = self.seen.first_in(pa.concat_tables([near, gone]))
        new = self.seen.first_in(pa.concat_tables([near, added]))
        broken = set(_places(held.filter(transform)))
        before, after = set(_places(old, "_")), set(_places(new, "_"))
        went = _without_places(old, after | broken)
        came = _without_places(new, before | broken)
        bronze = pa.concat_tables([change.added, rows])
        mapped = self._finished(bronze, came, came, bad)
        out, again = self._calculation.around("typed", typed=went)
        broke = mapped.bad.num_rows - bad.num_rows
        more = (added.num_rows - new.num_rows) - (gone.num_rows - old.num_rows)
        lost = [p for p in _places(gone, "_") if p in broken]
        return Revised(
            out,
            Mapped(mapped.rows, mapped.bad, more),
            held=change.gone.num_rows - known.num_rows + unread.num_rows + len(lost),
            went=went.num_rows - len(again),
            came=came.num_rows - broke,
            foreign=len(again),
        )

    def revised(self, position: int) -> None:
        self.position = position
        self._fill(self._source, position)

    def _near(self, typed: pa.Table, apart: set[Place]) -> tuple[pa.Table, pa.Table]:
        """Rows within the horizon of these, before and after; and as bronze has them."""
        if typed.num_rows == 0:
            return typed, self._source.schema.empty_table()
        times, within = typed["_ingested_at"].cast(pa.int64()), self.seen.dedupe.within_us
        start, end = pc.min(times).as_py() - within, pc.max(times).as_py() + within + 1
        rows = rows_between(self._source, self.position, "ingested_at", moment(start), moment(end))
        own = set(_places(typed, "_")) | apart
        keep = [place not in own for place in _places(rows)]
        rows = rows.filter(pa.array(keep, pa.bool_()))
        return self._decoded(rows)[0], rows


def _without_places(rows: pa.Table, places: set[Place]) -> pa.Table:
    keep = [place not in places for place in _places(rows, "_")]
    return rows.filter(pa.array(keep, pa.bool_()))


def _places(rows: pa.Table, prefix: str = "") -> list[Place]:
    """Of bronze or quarantined rows, or (with ``_``) of typed ones."""
    columns = [rows[f"{prefix}{name}"].to_pylist() for name in _PLACE]
    return list(zip(*columns, strict=True))


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
