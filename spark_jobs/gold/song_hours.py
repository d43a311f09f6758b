"""gold.song_hours: plays counted by the hour, from those of the minutes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling
from spark_jobs.song_periods import HOUR, in_frames


@table(
    "gold.song_hours",
    inputs={"minutes": "gold.song_minutes"},
    kind=tumbling("1 hour", on="window_start", updates=True),
    keys=("period", "frame", "song_id", "window_start"),
    freshness="1 minute",
    owner="music",
)
def song_hours(minutes: DataFrame) -> DataFrame:
    """One row per song, hour and day that the hour counts for: its plays, also while it fills."""
    once = minutes.where(~F.col("ahead"))
    counted = once.groupBy("song_id", "window_start").agg(F.sum("plays").alias("plays"))
    return in_frames(counted, HOUR)
