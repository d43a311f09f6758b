"""Running a transform on rows in memory, around the rows that break it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.runtime.decode.expression import ErrorClass
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.store import Store
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.compute import BROKEN_TRANSFORM, isolate, sliced, without
from penstock.runtime.kinds.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Calculation", "Mapped", "Mapper", "Revised", "RowMapper"]


@dataclass(frozen=True)
class Mapped:
    """What some input rows came to."""

    rows: pa.Table
    bad: pa.Table  # as quarantine keeps them
    duplicates: int = 0


@dataclass(frozen=True)
class Revised:
    """What a change of input rows comes to."""

    gone: pa.Table  # rows of the table that go
    mapped: Mapped  # what comes; of duplicates, how many more there are than before
    held: int  # rows that went and were in quarantine
    went: int  # rows that went and were neither that nor duplicates
    came: int  # the same of rows that came
    foreign: int = 0  # rows that went and that the table's own code cannot make


class Calculation:
    """A plan over one or more inputs in memory, run again and again."""

    def __init__(
        self,
        session: SparkSession,
        schemas: Mapping[str, pa.Schema],
        build: Callable[..., DataFrame],
        output: pa.Schema,
        table: str,
    ) -> None:
        self._session = session
        self._schemas = dict(schemas)
        self._plan = build
        self._output = output
        self._table = table
        self._prepared: Prepared | None = None

    def run(self, **rows: pa.Table) -> pa.Table:
        if self._prepared is None:
            schemas = {argument: table.schema for argument, table in rows.items()}
            self._prepared = Prepared(self._session, schemas, self._plan)
        return conform(self._prepared.run(**rows), self._output)

    def around(
        self, suspect: str, alone: pa.Table | None = None, **rows: pa.Table
    ) -> tuple[pa.Table, list[tuple[int, str]]]:
        """The result without the rows of ``suspect`` that break it, and which these are.

        Args:
            alone: the same rows of ``suspect`` as they are tried one by one, where that differs.
        """
        try:
            return self.run(**rows), []
        except BROKEN_TRANSFORM:

            def attempt(some: pa.Table) -> pa.Table:
                return self.run(**{**rows, suspect: some})

            broken = isolate(attempt, rows[suspect] if alone is None else alone, self._table)
            rest = without(rows[suspect], broken)
            return self.run(**{**rows, suspect: rest}), broken


class Mapper(ABC):
    """Rows of an input, one by one, into rows of a table.

    What is not about remembering rows is only ``map``; the rest does nothing unless a mapper does.
    """

    def begin(self) -> None:  # noqa: B027 - nothing to do unless rows are remembered
        """Before a batch."""

    def begin_again(self) -> None:  # noqa: B027
        """Before rows are mapped again, in the order they came in."""

    @abstractmethod
    def map(self, rows: pa.Table, *, again: bool = False) -> Mapped:
        """Map some rows.

        Args:
            again: they were taken in before: they are told apart as they were then, and nothing is
                remembered of them.
        """

    def done(self, position: int) -> None:  # noqa: B027
        """After the batch's commit."""

    def revise(self, change: Change, held: pa.Table) -> Revised:
        """Rows that came and went together; ``held`` is what is in quarantine of this input."""
        apart = set(held["row_id"].to_pylist())
        assert change.gone is not None  # noqa: S101
        known = sound(change.gone, apart)
        gone, mapped = self._all(known, again=True), self._all(change.added)
        went = known.num_rows - gone.bad.num_rows
        held = change.gone.num_rows - went
        came = change.added.num_rows - mapped.bad.num_rows
        foreign = pc.sum(pc.equal(gone.bad["error_class"], ErrorClass.TRANSFORM.value)).as_py()
        return Revised(gone.rows, mapped, held, went, came, foreign or 0)

    def _all(self, rows: pa.Table, *, again: bool = False) -> Mapped:
        """``map`` of any number of rows."""
        parts = [self.map(some, again=again) for some in sliced(rows)]
        return Mapped(
            pa.concat_tables([p.rows for p in parts]),
            pa.concat_tables([p.bad for p in parts]),
            sum(p.duplicates for p in parts),
        )

    def revised(self, position: int) -> None:  # noqa: B027
        """After the commit of a revision: what is remembered of rows may be of rows that went."""

    def replayed(self, rows: pa.Table, held: pa.Table) -> Mapped:
        """Rows out of quarantine, of which ``held`` is all there is."""
        return self.map(rows)

    def stores(self) -> list[Store]:
        """Copies it keeps."""
        return []


class RowMapper(Mapper):
    """A transform over typed rows; other inputs of the table, if any, are empty meanwhile."""

    def __init__(
        self, calculation: Calculation, argument: str, source: str, others: dict[str, pa.Schema]
    ) -> None:
        self._calculation = calculation
        self._argument = argument
        self._source = source
        self._others = {name: schema.empty_table() for name, schema in others.items()}

    def map(self, rows: pa.Table, *, again: bool = False) -> Mapped:
        given = {**self._others, self._argument: rows}
        out, broken = self._calculation.around(self._argument, **given)
        apart = rows.take(pa.array([index for index, _ in broken], pa.int64()))
        bad = quarantine.broken_rows(self._source, apart, [error for _, error in broken])
        return Mapped(out, bad)
