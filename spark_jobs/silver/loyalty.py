"""silver.loyalty: every version of every guest's loyalty."""

from pyspark.sql import DataFrame

from penstock.model import table
from spark_jobs.bronze.loyalty import LOYALTY
from spark_jobs.captured import captured, history


@table(
    "silver.loyalty",
    inputs={"loyalty": LOYALTY},
    kind=history("guest_id"),
    freshness="20 seconds",
    owner="hotel",
)
def loyalty(loyalty: DataFrame) -> DataFrame:
    """One row per guest and version of the loyalty he has earned, valid from its commit on."""
    return loyalty.select("guest_id", "name", "level", "points", "updated_at", *captured())
