"""Running a transform: in the driver for few rows, by Spark's writers for many, and around the
rows that break it.

A row that passes its contract and still breaks the transform (a cast, an overflow, a division, a
UDF) must not make the query fail for ever. It is found by halving, set apart with its error, and
the rest goes on. What cannot be pinned on single rows parks the table instead, loudly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from penstock.errors import TransformError, in_a_line
from penstock.location import Location
from penstock.runtime.delta.files import BIG_BATCH_ROWS, conform, spark_files, write_arrow
from penstock.runtime.delta.log import Action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "BROKEN_TRANSFORM",
    "Computed",
    "is_data_error",
    "isolate",
    "materialise",
    "sliced",
    "without",
]

# More broken rows than this in one batch is a broken transform, not broken rows.
MOST_BROKEN_ROWS = 64
# How a transform that fails shows itself; whether data is to blame, its words tell.
BROKEN_TRANSFORM = (PySparkException, Py4JJavaError)
# SQLSTATE class 22 is "data exception", P0001 an assertion of the author's.
_DATA_ERROR = re.compile(r"SQLSTATE: (22|P0001)|ArithmeticException|FAILED_EXECUTE_UDF")


@dataclass
class Computed:
    """Files ready to commit, and their rows where they passed through memory."""

    adds: list[Action]
    rows: pa.Table | None = None

    @property
    def count(self) -> int:
        return sum(json.loads(a["add"]["stats"])["numRecords"] for a in self.adds)


def materialise(frame: DataFrame, schema: pa.Schema, folder: Location, *, big: bool) -> Computed:
    """Compute the frame and write it as files of a table; nothing is committed here."""
    if big:
        return Computed(spark_files(frame.select(*schema.names), folder))
    rows = conform(frame.toArrow(), schema)
    return Computed(write_arrow(rows, folder), rows)


def isolate(
    attempt: Callable[[pa.Table], object], rows: pa.Table, table: str
) -> list[tuple[int, str]]:
    """Which rows break the transform, each alone, and with what error.

    Raises TransformError when it is not single rows: then only this table is parked.
    """
    if error := _attempt(attempt, rows.schema.empty_table()):
        raise _parked(table, f"the transform fails without any row: {error}")
    found: list[tuple[int, str]] = []
    pending = [(0, rows.num_rows)]
    while pending:
        start, length = pending.pop()
        # take, not slice: Arrow cannot hand a slice of a list column on to Spark
        error = _attempt(attempt, rows.take(pa.array(range(start, start + length), pa.int64())))
        if error is None:
            continue
        if length > 1:
            half = length // 2
            pending += [(start, half), (start + half, length - half)]
            continue
        found.append((start, error))
        if len(found) > MOST_BROKEN_ROWS:
            raise _parked(table, f"over {MOST_BROKEN_ROWS} rows of one batch break it: {error}")
    rest = without(rows, found)
    if error := _attempt(attempt, rest):
        raise _parked(table, f"the transform fails, but not because of any single row: {error}")
    return sorted(found)


def without(rows: pa.Table, broken: list[tuple[int, str]]) -> pa.Table:
    """The rows less the broken ones."""
    bad = {index for index, _ in broken}
    keep = [index for index in range(rows.num_rows) if index not in bad]
    return rows.take(pa.array(keep, pa.int64()))


def _parked(table: str, reason: str) -> TransformError:
    return TransformError(
        f"{table} is parked: {reason}",
        remedy="Other tables go on. Mend the transform, or `penstock streams restart` it.",
    )


def is_data_error(error: Exception) -> bool:
    """Whether a row is to blame; a full disk or a lost worker condemns none, and passes."""
    if not isinstance(error, BROKEN_TRANSFORM):
        return False
    return isinstance(error, PythonException) or bool(_DATA_ERROR.search(str(error)))


def _attempt(attempt: Callable[[pa.Table], object], rows: pa.Table) -> str | None:
    try:
        attempt(rows)
    except BROKEN_TRANSFORM as error:
        if not is_data_error(error):
            raise
        return in_a_line(error)
    return None


def sliced(rows: pa.Table) -> Iterator[pa.Table]:
    """Parts small enough for the driver; one empty part of an empty table."""
    step = BIG_BATCH_ROWS
    for start in range(0, max(rows.num_rows, 1), step):
        yield rows.slice(start, step)
