"""gold.song_minutes: plays counted by the minute, the first phase of gold.top_songs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling
from spark_jobs.song_periods import MINUTE, in_frames


@table(
    "gold.song_minutes",
    inputs={"plays": "silver.song_plays"},
    kind=tumbling("1 minute", on="played_at", lateness="10 seconds"),
    keys=("period", "frame", "song_id", "window_start"),
    freshness="20 seconds",
    owner="music",
)
def song_minutes(plays: DataFrame) -> DataFrame:
    """One row per song, minute and frame of five minutes that the minute counts for: its plays."""
    counted = plays.groupBy("song_id", "window_start").agg(F.count(F.lit(1)).alias("plays"))
    return in_frames(counted, MINUTE)
