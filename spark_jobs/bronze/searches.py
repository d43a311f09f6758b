"""bronze.searches: what visitors of the web shop look for, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Matches, PlausibleTime, Range, avro_schema, stream

SEARCHES = stream(
    "bronze.searches",
    topic="searches",
    event_time="searched_at",
    contract=Contract(
        subject="searches-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "searches.avsc"),
        rules=[
            Matches("search_id", r"q-[A-Za-z0-9-]{1,40}"),
            Range("user_id", minimum=1),
            Matches("query", r"\s*\S.{0,199}"),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="web",
    doc="Every search as the browser sent it.",
)
