"""silver.clicks: page views that keep their contract, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.clicks import CLICKS
from spark_jobs.shared import coordinates


@table(
    "silver.clicks",
    inputs={"clicks": CLICKS},
    kind=Rows(),
    dedupe=Dedupe(key=("click_id",), within="1 hour"),
    freshness="10 seconds",
    owner="web",
)
def clicks(clicks: DataFrame) -> DataFrame:
    """One row per page somebody opened; a browser that sends it twice counts once."""
    return clicks.select("click_id", "user_id", "page", "clicked_at", *coordinates())
