"""gold.zip_stats: where the people who click live."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Totals, table


@table(
    "gold.zip_stats",
    inputs={"clicks": "gold.clicks_enriched"},
    # A zip code says where only together with its country.
    kind=Totals(by=("country", "zip_code")),
    freshness="20 seconds",
    owner="web",
)
def zip_stats(clicks: DataFrame) -> DataFrame:
    """One row per country and zip code of who clicked, as of the click; "unknown" where it is."""
    return clicks.select(
        F.coalesce("country", F.lit("unknown")).alias("country"),
        F.coalesce("zip_code", F.lit("unknown")).alias("zip_code"),
        F.lit(1).cast("bigint").alias("clicks"),
    )
