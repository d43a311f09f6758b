"""The rows of a pinned table as pandas frames: only the columns a check needs, a slice at a time.

**How it works.** DuckDB reads the Parquet files of the version, computes the columns a suite
declares, and hands rows over in slices of `SLICE_ROWS`. So what is in memory at a time is a slice
of the columns one suite names, however big the table is. What needs all values of a column at once
(a mean, a median) gets that column alone, up to `MOST_VALUES` values; uniqueness gets only the rows
whose values occur more than once, found by DuckDB, which can spill to disk.

**Types.** Decimals come as doubles, which is what Great Expectations compares well: up to 15 digits
a double is as good. An equation between decimals is better a declared column, because DuckDB
computes it in decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from penstock.errors import DefinitionError, UsageError, in_a_line
from penstock.model.duration import parse_duration
from penstock.quality.pinned import Pinned
from penstock.quality.suite import Check, Suite
from penstock.serve.snapshot import file_lists, identifier, scan_sql

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["MOST_VALUES", "SLICE_ROWS", "Frames", "Slice", "opened"]

SLICE_ROWS = 250_000  # about 100 MB with ten columns, half of them text
MOST_VALUES = 20_000_000  # of whole columns: 160 MB of numbers, about 2 GB of text
_MEMORY = "1GB"
_SEED = 42  # the same sample of the same version every time
_NAMED = "_penstock_named_"

# The columns to check; and, as Arrow until somebody asks for a row, those that name rows.
Slice = tuple["pd.DataFrame", pa.Table]


class Frames:
    """A table at a version, with the columns its suite declares."""

    def __init__(
        self, duck: duckdb.DuckDBPyConnection, pinned: Pinned, suite: Suite, *, whole: bool
    ) -> None:
        self._duck = duck
        self.pinned = pinned
        self._suite = suite
        declared = "".join(f", ({sql}) as {identifier(n)}" for n, sql in suite.columns.items())
        scan = scan_sql(pinned.snapshot.columns, pinned.snapshot.parts, "files")
        self._make("every_row", f"select *{declared} from ({scan})", "columns")  # noqa: S608
        self._make("held_rows", self._windowed(whole), "window")
        listed = duck.execute("describe held_rows").fetchall()
        self.types: dict[str, str] = {row[0]: row[1] for row in listed}
        self.rows = self._count("from held_rows")

    def _windowed(self, whole: bool) -> str:
        window = self._suite.window
        if window is None or whole:
            return "from every_row"
        by, length = identifier(window.by), parse_duration(window.length)
        return (
            f"select * from every_row where {by} > (select max({by}) from every_row) "  # noqa: S608
            f"- to_microseconds({length.total_seconds() * 1e6:.0f})"
        )

    def _make(self, view: str, sql: str, what: str) -> None:
        try:
            self._duck.execute(f"create view {view} as {sql}")
        except duckdb.Error as error:
            raise DefinitionError(
                f"{self._suite.place}: the {what} of the suite of {self._suite.table}: "
                f"{in_a_line(error)}",
                remedy=f"It has {', '.join(self.pinned.columns)}.",
            ) from None

    # --- slices ---------------------------------------------------------------------------
    def slices(self, check: Check) -> Iterator[Slice]:
        """The rows a check means, with the columns it looks at, a slice at a time."""
        return self._read(self._meant(check), check.columns)

    def shared(self, checks: Sequence[Check]) -> Iterator[Slice]:
        """Slices of all columns that several checks over all rows need: read once for all."""
        columns = list(dict.fromkeys(name for check in checks for name in check.columns))
        return self._read("from held_rows", columns)

    def whole(self, check: Check) -> Slice:
        """All rows a check means at once.

        Raises:
            UsageError: that would be more than may be in memory.
        """
        return self._whole(self._meant(check), check)

    def repeated(self, check: Check) -> tuple[Slice, int]:
        """Rows whose values of the check's columns others have too; and how many rows there are.

        A row that is alone is unique by anybody's count, so leaving it out changes no answer.
        """
        meant = self._meant(check)
        by = ", ".join(map(identifier, check.columns))
        together = f"select * from ({meant}) qualify count(*) over (partition by {by}) > 1"  # noqa: S608
        return self._whole(together, check), self._count(meant)

    def count(self, check: Check) -> int:
        return self._count(self._meant(check))

    def _count(self, sql: str) -> int:
        ((number,),) = self._duck.execute(f"select count(*) from ({sql})").fetchall()  # noqa: S608
        return int(number)

    def row(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The whole row that is named so; the first, if several are."""
        tests = [f"{identifier(n)} is not distinct from ${i}" for i, n in enumerate(named, 1)]
        found = self._duck.sql(
            f"select * from held_rows where {' and '.join(tests)} order by all limit 1",  # noqa: S608
            params=list(named.values()),
        ).to_arrow_table()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows[0] if rows else {}

    def _meant(self, check: Check) -> str:
        sql = "select * from held_rows"
        if check.where:
            sql += f" where ({check.where})"
        if check.sample:
            sql += f" using sample reservoir({check.sample} rows) repeatable ({_SEED})"
        return sql

    def _whole(self, sql: str, check: Check) -> Slice:
        import pandas as pd

        most = max(1, MOST_VALUES // max(1, len(check.columns)))
        needed = self._count(sql)
        if needed > most:
            raise UsageError(
                f"{check.name} needs {needed:,} rows in memory at once; {most:,} may be.",
                remedy="Give the suite a window, or the check a sample.",
            )
        parts = list(self._read(sql, check.columns))
        if len(parts) == 1:
            return parts[0]
        return (
            pd.concat([one for one, _ in parts], ignore_index=True),
            pa.concat_tables([two for _, two in parts]),
        )

    def _read(self, sql: str, columns: Sequence[str]) -> Iterator[Slice]:
        """At least one slice, so that a check of no rows has an answer too."""
        naming = self.pinned.naming
        wanted = [self._as_frame(name, name) for name in columns]
        wanted += [f"{identifier(name)} as {identifier(_NAMED + name)}" for name in naming]
        reader = self._duck.sql(
            f"select {', '.join(wanted) or '1 as one'} from ({sql})"  # noqa: S608
        ).to_arrow_reader(SLICE_ROWS)
        for rows in _gathered(reader):
            yield _split(rows, columns, naming)

    def _as_frame(self, name: str, alias: str) -> str:
        column = identifier(name)
        if self.types.get(name, "").startswith("DECIMAL"):
            column = f"cast({column} as double)"
        return f"{column} as {identifier(alias)}"


def _gathered(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Batches put together until they are a slice; one without rows if there are none.

    A reader gives at least a batch per file, however many rows are asked for. A streamed table has
    thousands of files of ten rows, and a verdict takes Great Expectations a tenth of a second.
    """
    held: list[pa.RecordBatch] = []
    count, given = 0, False
    for batch in reader:
        if held and count + batch.num_rows > SLICE_ROWS:
            yield pa.Table.from_batches(held)
            held, count, given = [], 0, True
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
    if held or not given:
        yield pa.Table.from_batches(held, reader.schema)


def _split(rows: pa.Table, columns: Sequence[str], naming: Sequence[str]) -> Slice:
    names = rows.select([_NAMED + name for name in naming]).rename_columns(list(naming))
    return rows.select(list(columns)).to_pandas(), names


@contextmanager
def opened(pinned: Pinned, suite: Suite, scratch: Path, *, whole: bool) -> Iterator[Frames]:
    """The frames of a table, while they are looked at.

    Args:
        whole: look at all rows, whatever window the suite has.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "threads": 2,
        "memory_limit": _MEMORY,
        "temp_directory": str(scratch),
        "python_enable_replacements": False,
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=config) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.execute("SET enable_progress_bar = false")
        duck.execute("SET VARIABLE files = $1", [file_lists(pinned.snapshot.parts)])
        yield Frames(duck, pinned, suite, whole=whole)
