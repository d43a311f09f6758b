"""bronze.clicks: the web shop's clicks, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Matches, PlausibleTime, Range, avro_schema, stream

CLICKS = stream(
    "bronze.clicks",
    topic="clicks",
    event_time="clicked_at",
    contract=Contract(
        subject="clicks-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "clicks.avsc"),
        rules=[
            Matches("click_id", r"c-[A-Za-z0-9-]{1,40}"),
            Range("user_id", minimum=1),
            Matches("page", r"/[a-z0-9/_-]{0,199}"),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="web",
    doc="Every page view as the browser sent it.",
)
