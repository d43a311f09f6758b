"""bronze.payment_outcomes: what payments turned out to be, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, OneOf, PlausibleTime, avro_schema, stream

PAYMENT_OUTCOMES = stream(
    "bronze.payment_outcomes",
    topic="payment_outcomes",
    event_time="reported_at",
    contract=Contract(
        subject="payment_outcomes-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "payment_outcomes.avsc"),
        rules=[
            Matches("outcome_id", r"out-[A-Za-z0-9-]{1,40}"),
            Matches("payment_id", r"pay-[A-Za-z0-9-]{1,40}"),
            OneOf("outcome", ("chargeback", "confirmed", "cleared")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="payments",
    doc="Every chargeback, confirmed fraud and cleared suspicion, as it was reported.",
)
