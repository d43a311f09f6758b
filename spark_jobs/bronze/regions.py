"""bronze.regions: changes of the shop's table regions, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Debezium, EventTime, PlausibleTime, avro_schema, stream

REGIONS = stream(
    "bronze.regions",
    topic="shop.public.regions",
    event_time=EventTime.COMMIT,
    contract=Contract(
        subject="shop.public.regions-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "regions.avsc"),
        # Only what Postgres keeps to itself, as for bronze.users.
        rules=[
            PlausibleTime(past="365 days", future="1 day"),
        ],
        format=Debezium(),
    ),
    owner="logistics",
    doc="Every change of a region, as Debezium read it from Postgres.",
)
