"""Dedupe: of rows with the same key, only the first within the horizon counts.

By ingest time, which bronze stores and never lets go back, so that stream and batch decide alike:
a row is a duplicate when one with the same key was taken in at most the horizon before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.model.definition import Dedupe
from penstock.runtime.delta.relate import connection, same
from penstock.runtime.delta.store import Store
from penstock.runtime.kinds.folds import DUCKDB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SeenKeys", "as_they_came", "first_of_each"]

_SEEN = "seen"
_AT = "_at"
_ORDER = ("_ingested_at", "_partition", "_offset")


def as_they_came(bronze: pa.Table) -> pa.Table:
    """Rows of a topic in the order in which they were taken in; files may have mixed them."""
    return bronze.sort_by([(name.lstrip("_"), "ascending") for name in _ORDER])


class SeenKeys:
    """When each key was last taken in, as far back as the horizon."""

    def __init__(self, path: Path, dedupe: Dedupe, rows: pa.Schema) -> None:
        self.dedupe = dedupe
        key = [rows.field(name) for name in dedupe.key]
        self.store = Store(path, {_SEEN: pa.schema([*key, pa.field(_AT, pa.int64())])})

    def firsts(self, rows: pa.Table) -> pa.Table:
        """The rows that are no duplicates, in their order; all of them are remembered."""
        if rows.num_rows == 0:
            return rows
        key = list(self.dedupe.key)
        numbers = pa.array(range(rows.num_rows), pa.int64())
        at = rows["_ingested_at"].cast(pa.int64())
        wanted = rows.select([*key, "_partition", "_offset"])
        arrived = wanted.append_column("_row", numbers).append_column(_AT, at)
        seen = self.store.fetch(_SEEN, arrived.select(key))
        names = DUCKDB.names(key)
        found = (
            connection()
            .sql(
                f"""with placed as (
                select a._row, a._at, s._at as _before, lag(a._at) over (
                    partition by {", ".join(f"a.{DUCKDB.name(k)}" for k in key)}
                    order by a._at, a._partition, a._offset) as _last
                from arrived a left join seen s on {same("a", "s", key)})
            select _row from placed
            where coalesce(_last, _before) is null
               or _at - coalesce(_last, _before) > {self.dedupe.within_us}
            order by _row"""  # noqa: S608
            )
            .to_arrow_table()["_row"]
        )
        newest = (
            connection()
            .sql(
                f"""select {names}, max({_AT}) as {_AT} from (
                    select {names}, {_AT} from arrived union all select {names}, {_AT} from seen
                ) group by {names}"""  # noqa: S608
            )
            .to_arrow_table()
        )
        newest = newest.cast(seen.schema)
        self.store.replace(_SEEN, newest.select(key), newest)
        return rows.take(found)

    def first_in(self, rows: pa.Table) -> pa.Table:
        """The rows that are no duplicates of each other; nothing is remembered."""
        if rows.num_rows == 0:
            return rows
        at = rows["_ingested_at"].cast(pa.int64())
        placed = rows.select([*self.dedupe.key, "_partition", "_offset"]).append_column(_AT, at)
        placed = placed.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
        found = connection().sql(
            f"""select _row from (
                select _row, {_AT} - lag({_AT}) over (
                    partition by {DUCKDB.names(self.dedupe.key)}
                    order by {_AT}, _partition, _offset) as _gap from placed)
            where _gap is null or _gap > {self.dedupe.within_us} order by 1"""  # noqa: S608
        )
        return rows.take(found.to_arrow_table()["_row"])

    def apart_from(self, rows: pa.Table, near: pa.Table, firsts: list[bool]) -> pa.Table:
        """The rows that are firsts already, or have no other of their key within the horizon."""
        if rows.num_rows == 0:
            return rows
        key = list(self.dedupe.key)
        at = rows["_ingested_at"].cast(pa.int64())
        mine = rows.select([*key, "_partition", "_offset"]).append_column(_AT, at)
        mine = mine.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
        mine = mine.append_column("_first", pa.array(firsts, pa.bool_()))
        others = near.select(key).append_column(_AT, near["_ingested_at"].cast(pa.int64()))  # noqa: F841
        kept = connection().sql(
            f"""select m._row from mine m where m._first or not (
                exists (select 1 from others o where {same("m", "o", key)}
                        and abs(m._at - o._at) <= {self.dedupe.within_us})
                or exists (select 1 from mine e where {same("m", "e", key)}
                        and m._at - e._at <= {self.dedupe.within_us}
                        and (e._at, e._partition, e._offset) < (m._at, m._partition, m._offset)))
            order by 1"""  # noqa: S608
        )
        return rows.take(kept.to_arrow_table()["_row"])

    def forget(self, now: int) -> None:
        """Drop keys that cannot make a duplicate any more."""
        self.store.run(f"delete from {_SEEN} where {_AT} < {now - self.dedupe.within_us}")  # noqa: S608


def first_of_each(rows: DataFrame, dedupe: Dedupe) -> DataFrame:
    """The batch form: over all rows of a stream's transform input."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    order = Over.partitionBy(*dedupe.key).orderBy(*_ORDER)
    before = F.unix_micros("_ingested_at") - F.unix_micros(F.lag("_ingested_at").over(order))
    flagged = rows.withColumn("_gap", before)
    return flagged.where(F.col("_gap").isNull() | (F.col("_gap") > dedupe.within_us)).drop("_gap")
