"""gold.song_days: plays counted by the day, from those of the hours."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling
from spark_jobs.song_periods import DAY, in_frames


@table(
    "gold.song_days",
    inputs={"hours": "gold.song_hours"},
    kind=tumbling("1 day", on="window_start", updates=True),
    keys=("period", "frame", "song_id", "window_start"),
    freshness="1 minute",
    owner="music",
)
def song_days(hours: DataFrame) -> DataFrame:
    """One row per song, day and week or month that the day counts for: its plays so far."""
    once = hours.where(~F.col("ahead"))
    counted = once.groupBy("song_id", "window_start").agg(F.sum("plays").alias("plays"))
    return in_frames(counted, DAY)
