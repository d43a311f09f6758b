"""silver.returns: what customers brought back, each return once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.returns import RETURNS
from spark_jobs.shared import coordinates


@table(
    "silver.returns",
    inputs={"returns": RETURNS},
    kind=Rows(),
    dedupe=Dedupe(key=("return_id",), within="1 hour"),
    freshness="10 seconds",
    owner="shop",
)
def returns(returns: DataFrame) -> DataFrame:
    """One row per return of one model and size, with what was paid back and why."""
    return returns.select(
        "return_id",
        "sale_id",
        "model",
        "size",
        "quantity",
        "unit_price",
        (F.col("quantity") * F.col("unit_price")).cast("decimal(18,2)").alias("refunded"),
        "reason",
        F.col("event_time").alias("returned_at"),
        *coordinates(),
    )
