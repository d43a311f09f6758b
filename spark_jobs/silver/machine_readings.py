"""silver.machine_readings: measurements of machines, each once."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.machine_readings import MACHINE_READINGS
from spark_jobs.shared import coordinates


@table(
    "silver.machine_readings",
    inputs={"readings": MACHINE_READINGS},
    kind=Rows(),
    dedupe=Dedupe(key=("machine_id", "measured_at"), within="1 hour"),
    freshness="20 seconds",
    owner="plant",
)
def machine_readings(readings: DataFrame) -> DataFrame:
    """One row per machine and moment it measured, in whole thousandths: sums of those are exact."""
    return readings.select(
        "machine_id",
        _thousandths("temperature"),
        _thousandths("vibration"),
        "measured_at",
        *coordinates(),
    )


def _thousandths(name: str) -> Column:
    return (F.col(name).cast("decimal(12,3)") * 1000).cast("bigint").alias(name)
