"""bronze.readings: the sensors' topic, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, OneOf, PlausibleTime, Range, avro_schema, stream

READINGS = stream(
    "bronze.readings",
    topic="readings",
    event_time="measured_at",
    contract=Contract(
        subject="readings-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "readings.avsc"),
        rules=[
            Matches("sensor_id", r"[a-z][a-z0-9-]{0,39}"),
            Range("value", minimum=-100_000, maximum=1_000_000),
            OneOf("unit", ("celsius", "percent", "hectopascal")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="plant",
    doc="Every measurement as its sensor sent it.",
)
