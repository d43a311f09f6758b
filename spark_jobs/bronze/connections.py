"""bronze.connections: what hosts connect to, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, PlausibleTime, Range, avro_schema, stream

CONNECTIONS = stream(
    "bronze.connections",
    topic="connections",
    event_time="connected_at",
    contract=Contract(
        subject="connections-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "connections.avsc"),
        rules=[
            Matches("connection_id", r"x-[A-Za-z0-9-]{1,40}"),
            Matches("host", r"[a-z][a-z0-9-]{0,39}"),
            Matches("address", r"[0-9]{1,3}(\.[0-9]{1,3}){3}"),
            Range("sent_bytes", minimum=0),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="security",
    doc="Every connection that a host of ours opened.",
)
