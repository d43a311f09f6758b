"""bronze.shipments: the shop's goods received, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import Contract, EventTime, Matches, PlausibleTime, Range, avro_schema, stream

SHIPMENTS = stream(
    "bronze.shipments",
    topic="shop_shipments",
    event_time=EventTime.RECORD,
    contract=Contract(
        subject="shop_shipments-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "shipments.avsc"),
        rules=[
            Matches("shipment_id", r"shp-[A-Za-z0-9-]{1,40}"),
            Matches("model", r"[a-z][a-z0-9-]{0,39}"),
            Matches("size", r"[1-5][0-9](\.5)?"),
            Range("quantity", minimum=1, maximum=100_000),
            Range("unit_cost", minimum=Decimal("0.01"), maximum=Decimal("100000")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="shop",
    doc="Every delivery to the shop as it was booked.",
)
