"""bronze.loyalty: changes of the shop's table loyalty, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Debezium, EventTime, OneOf, PlausibleTime, avro_schema, stream

LOYALTY = stream(
    "bronze.loyalty",
    topic="shop.public.loyalty",
    event_time=EventTime.COMMIT,
    contract=Contract(
        subject="shop.public.loyalty-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "loyalty.avsc"),
        # Only what Postgres keeps to itself, as for bronze.users.
        rules=[
            OneOf("level", ("bronze", "silver", "gold")),
            PlausibleTime(past="365 days", future="1 day"),
        ],
        format=Debezium(),
    ),
    owner="hotel",
    doc="Every change of a guest's loyalty, as Debezium read it from Postgres.",
)
