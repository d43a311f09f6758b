"""gold.log_minutes: what each service had to say."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling


@table(
    "gold.log_minutes",
    inputs={"logs": "silver.app_logs"},
    kind=tumbling("1 minute", on="logged_at", lateness="10 seconds"),
    keys=("service", "window_start"),
    freshness="20 seconds",
    owner="platform",
)
def log_minutes(logs: DataFrame) -> DataFrame:
    """One row per service and minute: lines logged, and how many of them were errors."""
    return logs.groupBy("service", "window_start").agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_if(F.col("level") == "ERROR").alias("errors"),
    )
