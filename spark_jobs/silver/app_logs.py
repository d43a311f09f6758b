"""silver.app_logs: lines of the shop's services that keep their contract, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.app_logs import APP_LOGS
from spark_jobs.shared import coordinates


@table(
    "silver.app_logs",
    inputs={"logs": APP_LOGS},
    kind=Rows(),
    dedupe=Dedupe(key=("log_id",), within="1 hour"),
    freshness="10 seconds",  # error_events is read by people who are on call
    owner="platform",
)
def app_logs(logs: DataFrame) -> DataFrame:
    """One row per line a service logged; one that its agent sends again counts once."""
    return logs.select("log_id", "service", "host", "level", "message", "logged_at", *coordinates())
