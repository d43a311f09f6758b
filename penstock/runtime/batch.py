"""The batch form of a table: the same transform over all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.definition import Table
from penstock.model.windows import Window
from penstock.runtime.windows import assign_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["recompute"]


def recompute(table: Table, rows: DataFrame, *, until: int | None = None) -> DataFrame:
    """The table computed from its input's rows.

    Args:
        until: for window tables, the watermark in microseconds: windows that end after it are not
            final and are left out.
    """
    if isinstance(table.kind, Window):
        rows = _final_windows(table.kind, rows, until)
    out: DataFrame = table(rows)
    return out


def _final_windows(window: Window, rows: DataFrame, until: int | None) -> DataFrame:
    windows = assign_windows(rows.where(F.col(window.on).isNotNull()), window)
    if until is not None:
        windows = windows.where(F.unix_micros("window_end") <= F.lit(until))
    return windows
