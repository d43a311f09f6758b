"""gold.page_stats: how often each page is opened."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Totals, table


@table(
    "gold.page_stats",
    inputs={"clicks": "silver.clicks"},
    kind=Totals(by=("page",)),
    freshness="20 seconds",
    owner="web",
)
def page_stats(clicks: DataFrame) -> DataFrame:
    """One row per page: its clicks, and how many of them were by somebody who was logged in."""
    return clicks.select(
        "page",
        F.lit(1).cast("bigint").alias("clicks"),
        F.col("user_id").isNotNull().cast("bigint").alias("logged_in"),
    )
