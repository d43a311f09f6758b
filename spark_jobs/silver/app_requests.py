"""silver.app_requests: requests that services answered, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.app_requests import APP_REQUESTS
from spark_jobs.shared import coordinates


@table(
    "silver.app_requests",
    inputs={"app_requests": APP_REQUESTS},
    kind=Rows(),
    dedupe=Dedupe(key=("request_id",), within="1 hour"),
    freshness="20 seconds",
    owner="platform",
)
def app_requests(app_requests: DataFrame) -> DataFrame:
    """One row per request that a service answered."""
    return app_requests.select(
        "request_id", "service", "path", "status", "latency_ms", "requested_at", *coordinates()
    )
