"""bronze.returns: what customers brought back, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import (
    Contract,
    EventTime,
    Matches,
    OneOf,
    PlausibleTime,
    Range,
    avro_schema,
    stream,
)

RETURNS = stream(
    "bronze.returns",
    topic="shop_returns",
    event_time=EventTime.RECORD,
    contract=Contract(
        subject="shop_returns-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "returns.avsc"),
        rules=[
            Matches("return_id", r"ret-[A-Za-z0-9-]{1,40}"),
            Matches("sale_id", r"sal-[A-Za-z0-9-]{1,40}"),
            Matches("model", r"[a-z][a-z0-9-]{0,39}"),
            Matches("size", r"[1-5][0-9](\.5)?"),
            Range("quantity", minimum=1, maximum=1_000),
            Range("unit_price", minimum=Decimal("0.01"), maximum=Decimal("100000")),
            OneOf("reason", ("too_small", "too_large", "damaged", "wrong_colour", "changed_mind")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="shop",
    doc="Every return as the till sent it.",
)
