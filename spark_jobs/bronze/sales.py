"""bronze.sales: the shop's sales, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import Contract, EventTime, Matches, PlausibleTime, Range, avro_schema, stream

SALES = stream(
    "bronze.sales",
    topic="shop_sales",
    event_time=EventTime.RECORD,
    contract=Contract(
        subject="shop_sales-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "sales.avsc"),
        rules=[
            Matches("sale_id", r"sal-[A-Za-z0-9-]{1,40}"),
            Matches("model", r"[a-z][a-z0-9-]{0,39}"),
            Matches("size", r"[1-5][0-9](\.5)?"),
            Range("quantity", minimum=1, maximum=1_000),
            Range("unit_price", minimum=Decimal("0.01"), maximum=Decimal("100000")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="shop",
    doc="Every sale as the till sent it.",
)
