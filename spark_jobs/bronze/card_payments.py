"""bronze.card_payments: payments that ask to be approved, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import Contract, Matches, OneOf, PlausibleTime, Range, avro_schema, stream

CARD_PAYMENTS = stream(
    "bronze.card_payments",
    topic="card_payments",
    event_time="paid_at",
    contract=Contract(
        subject="card_payments-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "card_payments.avsc"),
        rules=[
            Matches("payment_id", r"pay-[A-Za-z0-9-]{1,40}"),
            Matches("card_id", r"card-[0-9]{4,10}"),
            OneOf("card_kind", ("debit", "credit", "prepaid")),
            Range("amount", minimum=Decimal("0.01"), maximum=Decimal("1000000")),
            Range("latitude", minimum=-90, maximum=90),
            Range("longitude", minimum=-180, maximum=180),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="payments",
    doc="Every card payment as its terminal sent it.",
)
