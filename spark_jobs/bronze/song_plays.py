"""bronze.song_plays: plays of songs, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Matches, PlausibleTime, Range, avro_schema, stream

SONG_PLAYS = stream(
    "bronze.song_plays",
    topic="song_plays",
    event_time="played_at",
    contract=Contract(
        subject="song_plays-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "song_plays.avsc"),
        rules=[
            Matches("play_id", r"p-[A-Za-z0-9-]{1,40}"),
            Matches("song_id", r"s[0-9]{3,6}"),
            Range("listener_id", minimum=1),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="music",
    doc="Every song that somebody heard to its end.",
)
