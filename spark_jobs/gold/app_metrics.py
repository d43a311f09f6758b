"""gold.app_metrics: what services did, how long it took and what they said, side by side."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.app_metrics",
    inputs={"requests": "gold.request_minutes", "logs": "gold.log_minutes"},
    kind=Group(by=("service", "window_start")),
    keys=("service", "window_start"),
    freshness="1 minute",
    owner="platform",
)
def app_metrics(requests: DataFrame, logs: DataFrame) -> DataFrame:
    """One row per service and minute in which it answered or logged anything.

    Counts are 0 and latencies null where one of the two is missing.
    """
    both = requests.unionByName(logs, allowMissingColumns=True)
    # Each input has one row per service and minute: the greatest of one value is that value.
    counts = ("requests", "failures", "lines", "errors")
    return both.groupBy("service", "window_start").agg(
        *(F.coalesce(F.max(name), F.lit(0)).alias(name) for name in counts),
        F.max("p50_ms").alias("p50_ms"),
        F.max("p99_ms").alias("p99_ms"),
    )
