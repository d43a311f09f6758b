"""Windows as columns: which windows a row falls into, the same in stream and in batch.

Whole microseconds throughout: a floating-point second would move edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from penstock.model.kinds import Enrich
from penstock.model.windows import IntervalJoin, Session, Sliding, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["as_of", "assign_sessions", "assign_sliding", "assign_windows", "paired"]


def assign_windows(frame: DataFrame, window: Window) -> DataFrame:
    """One row per window a row falls into, with ``window_start`` and ``window_end``."""
    size, every, offset = window.us("size"), window.us("every"), window.us("offset")
    time = F.unix_micros(F.col(window.on))
    newest = time - F.pmod(time - F.lit(offset), F.lit(every))
    starts = F.array(*(newest - F.lit(pane * every) for pane in range(window.panes)))
    return _spanned(frame.withColumn("_start", F.explode(starts)), F.col("_start") + F.lit(size))


def assign_sessions(frame: DataFrame, session: Session) -> DataFrame:
    """Each row with the start and the end of its session; the end is ``gap`` after the last row."""
    gap = F.lit(session.us("gap"))
    time = F.unix_micros(F.col(session.on))
    order = Over.partitionBy(*session.by).orderBy("_time")
    whole = Over.partitionBy(*session.by, "_session")
    before = F.lag("_time").over(order)
    opens = F.when(before.isNull() | (F.col("_time") - before >= gap), 1).otherwise(0)
    numbered = (
        frame.withColumn("_time", time)
        .withColumn("_opens", opens)
        .withColumn("_session", F.sum("_opens").over(order))
        .withColumn("_start", F.min("_time").over(whole))
    )
    ended = numbered.withColumn("_end", F.max("_time").over(whole) + gap)
    return _spanned(ended, F.col("_end")).drop("_time", "_opens", "_session", "_end")


def assign_sliding(
    frame: DataFrame, sliding: Sliding, within: Callable[[Column], Column] | None = None
) -> DataFrame:
    """Each row once per moment of its key whose window it lies in.

    ``within`` picks the moments, by a condition on their microseconds.
    """
    size = F.lit(sliding.us("size"))
    time = F.unix_micros(F.col(sliding.on))
    moments = frame if within is None else frame.where(within(time))
    anchors = moments.select(
        *(F.col(name).alias(f"_by_{name}") for name in sliding.by), time.alias("_anchor")
    ).distinct()
    members = frame.withColumn("_time", time)
    same = [F.col(name).eqNullSafe(F.col(f"_by_{name}")) for name in sliding.by]
    inside = (F.col("_time") > F.col("_anchor") - size) & (F.col("_time") <= F.col("_anchor"))
    condition = inside
    for test in same:
        condition = condition & test
    joined = members.join(anchors, condition)
    started = joined.withColumn("_start", F.col("_anchor") - size)
    extra = [f"_by_{name}" for name in sliding.by]
    return _spanned(started, F.col("_anchor")).drop("_time", "_anchor", *extra)


def paired(left: DataFrame, right: DataFrame, join: IntervalJoin, right_name: str) -> DataFrame:
    """Left rows with their right rows as a struct column."""
    matches = right.select(F.struct(*right.columns).alias(right_name))
    theirs = F.unix_micros(F.col(f"{right_name}.{join.right_on}"))
    ours = F.unix_micros(F.col(join.on))
    condition = (theirs >= ours - F.lit(join.us("before"))) & (
        theirs <= ours + F.lit(join.us("after"))
    )
    for name in join.by:
        condition = condition & (F.col(name) == F.col(f"{right_name}.{name}"))
    return left.join(matches, condition, join.how)


def as_of(facts: DataFrame, dimensions: dict[str, DataFrame], kind: Enrich) -> DataFrame:
    """Facts with each dimension as it was at their time, as a struct column, or null."""
    for argument, dimension in dimensions.items():
        versions = dimension.select(F.struct(*dimension.columns).alias(argument))
        since, until = F.col(f"{argument}.valid_from"), F.col(f"{argument}.valid_to")
        condition = (since <= F.col(kind.on)) & (until.isNull() | (F.col(kind.on) < until))
        for name in kind.by:
            condition = condition & (F.col(name) == F.col(f"{argument}.{name}"))
        facts = facts.join(versions, condition, "left")
    return facts


def _spanned(frame: DataFrame, end: Column) -> DataFrame:
    return (
        frame.withColumn("window_start", F.timestamp_micros("_start"))
        .withColumn("window_end", F.timestamp_micros(end))
        .drop("_start")
    )
