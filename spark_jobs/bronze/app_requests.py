"""bronze.app_requests: requests that services answered, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, PlausibleTime, Range, avro_schema, stream

APP_REQUESTS = stream(
    "bronze.app_requests",
    topic="app_requests",
    event_time="requested_at",
    contract=Contract(
        subject="app_requests-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "app_requests.avsc"),
        rules=[
            Matches("request_id", r"q-[A-Za-z0-9-]{1,40}"),
            Matches("service", r"[a-z][a-z0-9-]{0,39}"),
            Range("status", minimum=100, maximum=599),
            Range("latency_ms", minimum=0, maximum=600_000),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="platform",
    doc="Every request with its answer and how long it took.",
)
