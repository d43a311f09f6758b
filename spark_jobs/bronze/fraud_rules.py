"""bronze.fraud_rules: changes of the shop's table fraud_rules, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Debezium, EventTime, OneOf, PlausibleTime, avro_schema, stream

FRAUD_RULES = stream(
    "bronze.fraud_rules",
    topic="shop.public.fraud_rules",
    event_time=EventTime.COMMIT,
    contract=Contract(
        subject="shop.public.fraud_rules-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "fraud_rules.avsc"),
        # Only what Postgres keeps to itself, as for bronze.users.
        rules=[
            OneOf("card_kind", ("debit", "credit", "prepaid")),
            PlausibleTime(past="365 days", future="1 day"),
        ],
        format=Debezium(),
    ),
    owner="payments",
    doc="Every change of a fraud rule, as Debezium read it from Postgres.",
)
