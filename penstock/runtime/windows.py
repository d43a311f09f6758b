"""Windows as columns: which windows a row falls into, the same in stream and in batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.duration import micros
from penstock.model.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["assign_windows", "first_open_start"]


def assign_windows(frame: DataFrame, window: Window) -> DataFrame:
    """One row per window a row falls into, with ``window_start`` and ``window_end``.

    Whole microseconds throughout: a floating-point second would move edges.
    """
    size, every = micros(window.size_delta), micros(window.every_delta)
    offset = micros(window.offset_delta)
    time = F.unix_micros(F.col(window.on))
    newest = time - F.pmod(time - F.lit(offset), F.lit(every))
    starts = F.array(*(newest - F.lit(pane * every) for pane in range(window.panes)))
    return (
        frame.withColumn("_start", F.explode(starts))
        .withColumn("window_start", F.timestamp_micros("_start"))
        .withColumn("window_end", F.timestamp_micros(F.col("_start") + F.lit(size)))
        .drop("_start")
    )


def first_open_start(window: Window, watermark: int) -> int:
    """Start, in microseconds, of the oldest window that ends after the watermark."""
    size, every = micros(window.size_delta), micros(window.every_delta)
    offset = micros(window.offset_delta)
    # ends are offset + size + k*every; the first end strictly after the watermark
    steps = (watermark - offset - size) // every + 1
    return offset + steps * every
