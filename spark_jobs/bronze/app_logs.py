"""bronze.app_logs: what the shop's services log, kept byte for byte."""

from pathlib import Path

from penstock.model import Contract, Json, Matches, OneOf, PlausibleTime, avro_schema, stream

APP_LOGS = stream(
    "bronze.app_logs",
    topic="app_logs",
    event_time="logged_at",
    contract=Contract(
        subject="app_logs-value",
        schema=avro_schema(Path(__file__).parents[1] / "contracts" / "app_logs.avsc"),
        rules=[
            Matches("log_id", r"l-[A-Za-z0-9-]{1,40}"),
            Matches("service", r"[a-z][a-z0-9-]{0,39}"),
            Matches("host", r"[a-z][a-z0-9.-]{0,59}"),
            OneOf("level", ("DEBUG", "INFO", "WARN", "ERROR")),
            PlausibleTime(past="7 days", future="1 minute"),
        ],
        format=Json(),
    ),
    owner="platform",
    doc="Every line a service logged, as its agent sent it.",
)
