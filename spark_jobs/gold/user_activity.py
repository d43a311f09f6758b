"""gold.user_activity: what was viewed, by whom, and what they had looked for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Enrich, table


@table(
    "gold.user_activity",
    inputs={"views": "gold.clicks_with_search", "users": "silver.users"},
    kind=Enrich(by=("user_id",), on="clicked_at"),
    keys=("click_id",),
    freshness="20 seconds",
    owner="web",
)
def user_activity(views: DataFrame) -> DataFrame:
    """One row per page view, with the search before it and the user's profile as it was then."""
    return views.select(
        "click_id",
        "user_id",
        "page",
        "clicked_at",
        "search_id",
        "query",
        F.col("users").isNotNull().alias("known"),
        F.col("users.name").alias("user_name"),
        F.col("users.country").alias("country"),
        F.col("users.zip_code").alias("zip_code"),
        F.col("users.tier").alias("tier"),
    )
