"""gold.request_minutes: how much each service had to do, and how long its callers waited."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling


@table(
    "gold.request_minutes",
    inputs={"requests": "silver.app_requests"},
    kind=tumbling("1 minute", on="requested_at", lateness="10 seconds"),
    keys=("service", "window_start"),
    freshness="20 seconds",
    owner="platform",
)
def request_minutes(requests: DataFrame) -> DataFrame:
    """One row per service and minute: requests, failures, median and 99th percentile latency."""
    return requests.groupBy("service", "window_start").agg(
        F.count(F.lit(1)).alias("requests"),
        F.count_if(F.col("status") >= 500).alias("failures"),
        F.percentile("latency_ms", F.lit(0.5)).alias("p50_ms"),
        F.percentile("latency_ms", F.lit(0.99)).alias("p99_ms"),
    )
