"""gold.machine_steps: what each machine measured, in steps of ten seconds."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model import table, tumbling


@table(
    "gold.machine_steps",
    inputs={"readings": "silver.machine_readings"},
    kind=tumbling("10 seconds", on="measured_at", lateness="5 seconds"),
    keys=("machine_id", "window_start"),
    freshness="20 seconds",
    owner="plant",
)
def machine_steps(readings: DataFrame) -> DataFrame:
    """One row per machine and ten seconds: mean temperature and vibration, in whole thousandths."""
    return (
        readings.groupBy("machine_id", "window_start", "window_end")
        .agg(
            _mean("temperature"),
            _mean("vibration"),
            F.count(F.lit(1)).alias("readings"),
        )
        .withColumnRenamed("window_end", "ended_at")
    )


def _mean(name: str) -> Column:
    # Whole numbers add up to the same in every order; the rest of the division is let go.
    return F.expr(f"sum({name}) div count({name})").alias(name)
