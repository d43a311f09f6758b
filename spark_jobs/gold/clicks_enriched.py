"""gold.clicks_enriched: page views with who opened them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Enrich, table


@table(
    "gold.clicks_enriched",
    inputs={"clicks": "silver.clicks", "users": "silver.users"},
    kind=Enrich(by=("user_id",), on="clicked_at"),
    keys=("click_id",),
    freshness="10 seconds",
    owner="web",
)
def clicks_enriched(clicks: DataFrame) -> DataFrame:
    """One row per click with the user's profile as it was then; nulls where nobody is known."""
    return clicks.select(
        "click_id",
        "user_id",
        "page",
        "clicked_at",
        F.col("users").isNotNull().alias("known"),
        F.col("users.name").alias("user_name"),
        F.col("users.country").alias("country"),
        F.col("users.tier").alias("tier"),
        F.col("users.valid_from").alias("profile_from"),
        F.col("users.zip_code").alias("zip_code"),
    )
