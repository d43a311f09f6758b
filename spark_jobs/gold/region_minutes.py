"""gold.region_minutes: which trucks were seen where, by the minute."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling


@table(
    "gold.region_minutes",
    inputs={"positions": "silver.truck_positions"},
    kind=tumbling("1 minute", on="seen_at", lateness="30 seconds"),
    keys=("region", "truck_id", "window_start"),
    freshness="20 seconds",
    owner="logistics",
)
def region_minutes(positions: DataFrame) -> DataFrame:
    """One row per region, truck and minute: sightings, and the greatest load declared."""
    return (
        positions.groupBy("region", "truck_id", "window_start", "window_end")
        .agg(F.count(F.lit(1)).alias("sightings"), F.max("merchandise").alias("load"))
        .select(
            "region",
            "truck_id",
            "window_start",
            F.col("window_end").alias("ended_at"),
            "sightings",
            "load",
        )
    )
