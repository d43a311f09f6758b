"""bronze.machine_readings: the machines' topic, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, PlausibleTime, Range, avro_schema, stream

MACHINE_READINGS = stream(
    "bronze.machine_readings",
    topic="machine_readings",
    event_time="measured_at",
    contract=Contract(
        subject="machine_readings-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "machine_readings.avsc"),
        rules=[
            Matches("machine_id", r"m-[0-9]{2,6}"),
            Range("temperature", minimum=-50, maximum=500),
            Range("vibration", minimum=0, maximum=500),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="plant",
    doc="Every measurement as its machine sent it.",
)
