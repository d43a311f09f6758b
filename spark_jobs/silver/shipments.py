"""silver.shipments: goods the shop received, each delivery once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.shipments import SHIPMENTS
from spark_jobs.shared import coordinates


@table(
    "silver.shipments",
    inputs={"shipments": SHIPMENTS},
    kind=Rows(),
    dedupe=Dedupe(key=("shipment_id",), within="1 hour"),
    freshness="10 seconds",
    owner="shop",
)
def shipments(shipments: DataFrame) -> DataFrame:
    """One row per delivery of one model and size, with what all of it cost."""
    return shipments.select(
        "shipment_id",
        "model",
        "size",
        "quantity",
        "unit_cost",
        (F.col("quantity") * F.col("unit_cost")).cast("decimal(18,2)").alias("cost"),
        F.col("event_time").alias("shipped_at"),
        *coordinates(),
    )
