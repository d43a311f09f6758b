"""gold.region_day: the last 24 hours of each region, minute by minute."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import sliding, table


@table(
    "gold.region_day",
    inputs={"minutes": "gold.region_minutes"},
    kind=sliding("24 hours", by=("region",), on="ended_at"),
    keys=("region", "window_end"),
    freshness="1 minute",
    owner="logistics",
)
def region_day(minutes: DataFrame) -> DataFrame:
    """One row per region and minute it saw a truck in: what was seen in the 24 hours up to then."""
    return minutes.groupBy("region", "window_end").agg(
        F.sum("sightings").alias("sightings"),
        F.count_distinct("truck_id").alias("trucks"),
        F.max("load").alias("greatest_load"),
    )
