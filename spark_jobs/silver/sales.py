"""silver.sales: what the shop sold, each sale once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.sales import SALES
from spark_jobs.shared import coordinates


@table(
    "silver.sales",
    inputs={"sales": SALES},
    kind=Rows(),
    dedupe=Dedupe(key=("sale_id",), within="1 hour"),
    freshness="10 seconds",
    owner="shop",
)
def sales(sales: DataFrame) -> DataFrame:
    """One row per sale of one model and size, with what it brought in."""
    return sales.select(
        "sale_id",
        "model",
        "size",
        "quantity",
        "unit_price",
        (F.col("quantity") * F.col("unit_price")).cast("decimal(18,2)").alias("revenue"),
        F.col("event_time").alias("sold_at"),
        *coordinates(),
    )
