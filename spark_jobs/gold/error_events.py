"""gold.error_events: what somebody should look at now."""

from pyspark.sql import DataFrame

from penstock.model import Rows, events, table


@table(
    "gold.error_events",
    inputs={"logs": "silver.app_logs"},
    kind=Rows(),
    keys=("log_id",),
    freshness="10 seconds",
    owner="platform",
)
def error_events(logs: DataFrame) -> DataFrame:
    """One row per line of level ERROR: the branch with high priority."""
    return logs.where("level = 'ERROR'").select("log_id", "service", "host", "message", "logged_at")


ERRORS_OUT = events(error_events, topic="out.errors_high", corrections=False)
