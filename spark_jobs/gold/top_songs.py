"""gold.top_songs: the ten most played songs of the last five minutes, day, week and month."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.model import Group, table
from spark_jobs.song_periods import by_period

_BEST = 10


@table(
    "gold.top_songs",
    inputs={
        "minutes": "gold.song_minutes",
        "hours": "gold.song_hours",
        "days": "gold.song_days",
    },
    kind=Group(by=("period", "frame")),
    keys=("period", "frame", "rank"),
    freshness="1 minute",
    owner="music",
)
def top_songs(minutes: DataFrame, hours: DataFrame, days: DataFrame) -> DataFrame:
    """One row per period, frame and rank: the ten songs that were played most.

    The last five minutes, day, week (seven days) and month (thirty days) end with the newest step
    (minute, hour, day, day) of the frame in which any song was played: ``since`` to ``until``. The
    newest frame of a period says what is played now, older ones what was played at their end. Of
    songs played as often the one that comes first by name ranks first.
    """
    columns = ("period", "frame", "window_start", "song_id", "plays")
    steps = minutes.select(*columns).unionByName(hours.select(*columns))
    steps = steps.unionByName(days.select(*columns))
    frame = Window.partitionBy("period", "frame")
    inside = F.when(F.col("window_start") >= F.col("frame"), F.unix_micros("window_start"))
    recent = steps.withColumn("newest", F.max(inside).over(frame)).where(
        F.unix_micros("window_start") > F.col("newest") - by_period("size")
    )
    played = recent.groupBy("period", "frame", "newest", "song_id").agg(
        F.sum("plays").alias("plays")
    )
    rank = F.row_number().over(frame.orderBy(F.desc("plays"), "song_id"))
    until = F.col("newest") + by_period("step")
    return (
        played.withColumn("rank", rank)
        .where(F.col("rank") <= _BEST)
        .select(
            "period",
            "frame",
            "rank",
            "song_id",
            "plays",
            F.timestamp_micros(until - by_period("size")).alias("since"),
            F.timestamp_micros(until).alias("until"),
        )
    )
