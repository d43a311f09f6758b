"""bronze.song_plays: records of the topic song_plays, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.song_plays",
    *records("song_plays"),
    window=Last("24 hours", by="ingested_at"),
)
