"""gold.merchandise_by_region: what is on the road, by region."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table
from spark_jobs.shared import decimal_percentile


@table(
    "gold.merchandise_by_region",
    inputs={"loads": "silver.truck_loads"},
    kind=Group(by=("region",)),
    keys=("region",),
    freshness="10 seconds",
    owner="logistics",
)
def merchandise_by_region(loads: DataFrame) -> DataFrame:
    """One row per region: the worth of the loads last declared there, over trucks and routes.

    A truck and route seen in two regions counts in both, each with what it declared there.
    """
    # The input has one row per region, truck and route: every row is another pair.
    return loads.groupBy("region").agg(
        F.sum("merchandise").cast("decimal(28,2)").alias("merchandise"),
        F.count(F.lit(1)).alias("pairs"),
        F.count_distinct("truck_id").alias("trucks"),
        decimal_percentile("merchandise", "0.5").alias("median_load"),
        decimal_percentile("merchandise", "0.95").alias("p95_load"),
    )
