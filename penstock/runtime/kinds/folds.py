"""What a keyed table makes of the rows of a key: one query per kind, in two dialects.

The stream runs it in DuckDB on the rows of the touched keys, the batch in Spark on all rows. The
text is the same but for how a name is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.kinds import History, Latest, Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DUCKDB", "SPARK", "Dialect", "fold_frame", "fold_query", "kept_columns"]


@dataclass(frozen=True)
class Dialect:
    """How an engine quotes a name and writes the first moment there is."""

    quote: str
    beginning: str

    def name(self, column: str) -> str:
        return self.quote + column.replace(self.quote, self.quote * 2) + self.quote

    def names(self, columns: Sequence[str], suffix: str = "") -> str:
        return ", ".join(self.name(column) + suffix for column in columns)


DUCKDB = Dialect('"', "cast('1970-01-01 00:00:00+00:00' as timestamptz)")
SPARK = Dialect("`", "timestamp'1970-01-01 00:00:00+00:00'")
_NEWEST = " desc nulls last"


def kept_columns(kind: Totals | Latest, columns: Sequence[str]) -> list[str]:
    """The columns of the transform that the table has too."""
    dropped = set(kind.flags) if isinstance(kind, Latest) else set()
    if isinstance(kind, History):
        dropped.add(kind.since)
    return [name for name in columns if name not in dropped]


def fold_query(
    kind: Totals | Latest, columns: Sequence[str], rows: str, cuts: str, dialect: Dialect
) -> str:
    """The query over ``rows`` (and ``cuts``: rows that say that everything was truncated)."""
    if isinstance(kind, Totals):
        return _totals(kind, columns, rows, dialect)
    if isinstance(kind, History):
        return _history(kind, columns, rows, cuts, dialect)
    return _latest(kind, columns, rows, cuts, dialect)


def _totals(kind: Totals, columns: Sequence[str], rows: str, d: Dialect) -> str:
    sums = [f"coalesce(sum({d.name(c)}), 0) as {d.name(c)}" for c in columns if c not in kind.by]
    by = d.names(kind.by)
    return f"select {', '.join([by, *sums])} from {rows} group by {by}"  # noqa: S608


def _newest_first(kind: Latest, columns: Sequence[str], d: Dialect) -> str:
    """Newest by the declared order, ties by the rest of the row: the same whatever the arrival."""
    rest = [c for c in columns if c not in kind.order and c not in kind.by]
    return d.names([*kind.order, *rest], _NEWEST)


def _flag(name: str | None, d: Dialect) -> str:
    return f"coalesce({d.name(name)}, false)" if name else "false"


def _before(kind: Latest, d: Dialect) -> str:
    """True where row ``r`` is older than cut ``c``, by all columns of the order in turn."""
    tests = []
    for index, column in enumerate(kind.order):
        equal = [
            f"(r.{d.name(c)} = c.{d.name(c)} or (r.{d.name(c)} is null and c.{d.name(c)} is null))"
            for c in kind.order[:index]
        ]
        ours, theirs = f"r.{d.name(column)}", f"c.{d.name(column)}"
        older = f"({ours} < {theirs} or ({ours} is null and {theirs} is not null))"
        tests.append(" and ".join([*equal, older]))
    return " or ".join(f"({test})" for test in tests)


def _latest(kind: Latest, columns: Sequence[str], rows: str, cuts: str, d: Dialect) -> str:
    alive = rows
    if kind.truncated:
        older = f"select 1 from {cuts} c where {_before(kind, d)}"  # noqa: S608
        alive = f"(select * from {rows} r where not exists ({older}))"  # noqa: S608
    kept = d.names(kept_columns(kind, columns))
    return f"""select {kept} from (
        select *, row_number() over (
            partition by {d.names(kind.by)} order by {_newest_first(kind, columns, d)}
        ) as _n from {alive}
    ) ranked where _n = 1 and not {_flag(kind.deleted, d)}"""  # noqa: S608


def _history(kind: History, columns: Sequence[str], rows: str, cuts: str, d: Dialect) -> str:
    by, since = d.names(kind.by), d.name(kind.since)
    newest = _newest_first(kind, columns, d)
    oldest = newest.replace(_NEWEST, " asc nulls first")
    told = f"select *, {_flag(kind.deleted, d)} as _ends from {rows}"  # noqa: S608
    if kind.truncated:
        # a truncation ends whatever version each key has then
        cut = ", ".join(f"k.{d.name(c)}" if c in kind.by else f"c.{d.name(c)}" for c in columns)
        keys = f"(select distinct {by} from {rows}) k"  # noqa: S608
        told += f" union all select {cut}, true as _ends from {keys} cross join {cuts} c"  # noqa: S608
    first = f"row_number() over (partition by {by} order by {oldest}) = 1"
    begins = f"case when {since} is null then {d.beginning} else {since} end"
    if kind.snapshot:
        snapshot = _flag(kind.snapshot, d)
        begins = f"case when {snapshot} and {first} then {d.beginning} else {begins} end"
    running = (
        f"partition by {by} order by {oldest} rows between unbounded preceding and current row"
    )
    return f"""select {d.names(kept_columns(kind, columns))}, _begins as valid_from, valid_to from (
        select *, lead(_begins) over (partition by {by} order by _begins) as valid_to from (
            select *, row_number() over (partition by {by}, _begins order by {newest}) as _n from (
                select *, max(_starts) over ({running}) as _begins from (
                    select *, {begins} as _starts from ({told}) told
                ) started
            ) begun
        ) numbered where _n = 1
    ) ended where not _ends"""  # noqa: S608


def fold_frame(kind: Totals | Latest, mapped: DataFrame) -> DataFrame:
    """The batch form: over everything the transform returned."""
    from pyspark.sql import functions as F

    columns = mapped.columns
    rows = cuts = mapped
    if isinstance(kind, Latest) and kind.truncated:
        cut = F.coalesce(F.col(kind.truncated), F.lit(False))
        rows, cuts = mapped.where(~cut), mapped.where(cut)
    query = fold_query(kind, columns, "{rows}", "{cuts}", SPARK)
    given = {"rows": rows} | ({"cuts": cuts} if "{cuts}" in query else {})
    return mapped.sparkSession.sql(query, **given)  # type: ignore[arg-type]
