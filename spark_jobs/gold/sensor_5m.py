"""gold.sensor_5m: what each sensor measured, in steps of five minutes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Json, changelog, table, tumbling


@table(
    "gold.sensor_5m",
    inputs={"readings": "silver.readings"},
    kind=tumbling("5 minutes", on="measured_at", lateness="30 seconds", reconcile_within="7 days"),
    keys=("sensor_id", "window_start"),
    freshness="10 seconds",
    owner="plant",
)
def sensor_5m(readings: DataFrame) -> DataFrame:
    """One row per sensor and five minutes: least, greatest, mean and 95th percentile value."""
    # Doubles do not add up to the same in every order; to the millionth, decimals do.
    exact = F.col("value").cast("decimal(20,6)")
    return readings.groupBy("sensor_id", "window_start", "window_end").agg(
        F.min("value").alias("min_value"),
        F.max("value").alias("max_value"),
        F.avg(exact).cast("double").alias("mean_value"),
        F.percentile("value", F.lit(0.95)).alias("p95_value"),
        F.count(F.lit(1)).alias("readings"),
    )


SENSOR_CHANGES = changelog(sensor_5m, format=Json())
