"""silver.readings: measurements that keep their contract, each once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.readings import READINGS
from spark_jobs.shared import coordinates


@table(
    "silver.readings",
    inputs={"readings": READINGS},
    kind=Rows(),
    dedupe=Dedupe(key=("sensor_id", "measured_at"), within="1 hour"),
    freshness="10 seconds",
    owner="plant",
)
def readings(readings: DataFrame) -> DataFrame:
    """One row per sensor and moment it measured; a measurement sent again counts once."""
    return readings.select(
        "sensor_id",
        # -0.0 and 0.0 are equal but not the same: which one is the least would depend on order.
        (F.col("value") + F.lit(0.0)).alias("value"),
        "unit",
        "calibration",
        "measured_at",
        *coordinates(),
    )
