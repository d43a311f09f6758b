"""gold.region_rolling: the last 24 hours of each region, with who was in charge of it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Enrich, table


@table(
    "gold.region_rolling",
    inputs={"days": "gold.region_day", "regions": "silver.regions"},
    kind=Enrich(by=("region",), on="window_end"),
    keys=("region", "window_end"),
    freshness="1 minute",
    owner="logistics",
)
def region_rolling(days: DataFrame) -> DataFrame:
    """One row per region and minute: the 24 hours up to then, and the region as it was then."""
    return days.select(
        "region",
        "window_end",
        F.col("regions.title").alias("title"),
        F.col("regions.manager").alias("manager"),
        "sightings",
        "trucks",
        "greatest_load",
    )
