"""bronze.trades: the trades topic, kept byte for byte."""

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

TRADES = stream(
    "bronze.trades",
    topic="trades",
    event_time=EventTime.RECORD,
    contract=Contract(
        subject="trades-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "trades.avsc"),
        rules=[
            Matches("ticker", r"[A-Z][A-Z0-9.]{0,9}"),
            Range("price", minimum=Decimal("0.0001"), maximum=Decimal("1000000")),
            Range("ask_price", minimum=Decimal("0.0001"), maximum=Decimal("1000000")),
            Range("size", minimum=1, maximum=10_000_000),
            OneOf("side", ("buy", "sell")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="markets",
    doc="Every trade as its producer sent it.",
)
