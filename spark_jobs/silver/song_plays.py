"""silver.song_plays: plays that keep their contract, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.song_plays import SONG_PLAYS
from spark_jobs.shared import coordinates


@table(
    "silver.song_plays",
    inputs={"song_plays": SONG_PLAYS},
    kind=Rows(),
    dedupe=Dedupe(key=("play_id",), within="1 hour"),
    freshness="20 seconds",
    owner="music",
)
def song_plays(song_plays: DataFrame) -> DataFrame:
    """One row per song that somebody heard to its end; a play told twice counts once."""
    return song_plays.select("play_id", "song_id", "listener_id", "played_at", *coordinates())
