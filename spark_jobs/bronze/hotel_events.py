"""bronze.hotel_events: what happens to guests, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import Contract, Matches, OneOf, PlausibleTime, Range, avro_schema, stream

HOTEL_EVENTS = stream(
    "bronze.hotel_events",
    topic="hotel_events",
    event_time="happened_at",
    contract=Contract(
        subject="hotel_events-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "hotel_events.avsc"),
        rules=[
            Matches("event_id", r"h-[A-Za-z0-9-]{1,40}"),
            Range("guest_id", minimum=1),
            Matches("stay_id", r"stay-[A-Za-z0-9-]{1,40}"),
            OneOf(
                "event",
                ("reservation", "confirmation", "check_in", "minibar", "complaint", "check_out"),
            ),
            Range("amount", minimum=Decimal("0.01"), maximum=Decimal("10000")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="hotel",
    doc="Reservations, confirmations, arrivals, minibars, complaints and departures.",
)
