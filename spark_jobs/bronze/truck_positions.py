"""bronze.truck_positions: where trucks were seen, kept byte for byte."""

from decimal import Decimal
from pathlib import Path

from penstock.model import Contract, Matches, OneOf, PlausibleTime, Range, avro_schema, stream

TRUCK_POSITIONS = stream(
    "bronze.truck_positions",
    topic="truck_positions",
    event_time="seen_at",
    contract=Contract(
        subject="truck_positions-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "truck_positions.avsc"),
        rules=[
            Matches("truck_id", r"T[0-9]{3,6}"),
            Matches("route_id", r"R[0-9]{2,6}"),
            OneOf("region", ("north", "south", "east", "west", "centre")),
            Range("merchandise", minimum=0, maximum=Decimal("10000000")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
    ),
    owner="logistics",
    doc="Every sighting of a truck, with the load it declares.",
)
