"""bronze.users: changes of the shop's table users, kept byte for byte."""

from pathlib import Path

from penstock.model import (
    Contract,
    Debezium,
    EventTime,
    OneOf,
    PlausibleTime,
    avro_schema,
    stream,
)

USERS = stream(
    "bronze.users",
    topic="shop.public.users",
    event_time=EventTime.COMMIT,
    contract=Contract(
        subject="shop.public.users-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "users.avsc"),
        # Only what Postgres keeps to itself: a stricter rule would leave rows out of the copy.
        # Change capture may have been down for long; its rows are no less true for that.
        rules=[
            OneOf("tier", ("basic", "plus", "gold")),
            PlausibleTime(past="365 days", future="1 day"),
        ],
        format=Debezium(),
    ),
    owner="shop",
    doc="Every change of a user, as Debezium read it from Postgres.",
)
