"""Over how long songs are ranked, and in which steps the plays of that time are counted.

A ranking over the last month must not read a month of plays: plays are counted by the minute,
minutes by the hour, hours by the day, and each ranking adds up the steps that are coarse enough for
it. Time is cut into *frames* as long as the period. A step counts for its own frame and for the
next one, whose rankings look back into it; so a frame's steps are all that its ranking needs.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["DAY", "HOUR", "MINUTE", "Period", "by_period", "in_frames"]

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True)
class Period:
    """A period and the step it moves by, in microseconds."""

    name: str
    size: int
    step: int


PERIODS = (
    Period("5 minutes", 5 * MINUTE, MINUTE),
    Period("day", DAY, HOUR),
    Period("week", 7 * DAY, DAY),
    Period("month", 30 * DAY, DAY),
)


def in_frames(steps: DataFrame, step: int) -> DataFrame:
    """Each counted step once per period that moves by it and per frame it counts for.

    ``ahead`` is true where that is the next frame: without these rows every step is there once.
    """
    micros = F.unix_micros("window_start")
    places = [
        F.struct(
            F.lit(period.name).alias("period"),
            F.timestamp_micros(
                micros - F.pmod(micros, F.lit(period.size)) + F.lit(period.size * ahead)
            ).alias("frame"),
            F.lit(bool(ahead)).alias("ahead"),
        )
        for period in PERIODS
        if period.step == step
        for ahead in (0, 1)
    ]
    spread = steps.withColumn("place", F.explode(F.array(*places)))
    return spread.select("place.*", "window_start", "song_id", "plays")


def by_period(member: str) -> Column:
    """The size or the step of a row's period."""
    choice = F.lit(None).cast("bigint")
    for period in PERIODS:
        choice = F.when(F.col("period") == period.name, getattr(period, member)).otherwise(choice)
    return choice
