"""gold.inventory_by_model: the inventory, added up over sizes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.inventory_by_model",
    inputs={"inventory": "gold.inventory"},
    kind=Group(by=("model",)),
    keys=("model",),
    freshness="20 seconds",
    owner="shop",
)
def inventory_by_model(inventory: DataFrame) -> DataFrame:
    """One row per model: in how many sizes it is to be had, pairs in stock, money made."""
    return inventory.groupBy("model").agg(
        F.count_if(F.col("stock") > 0).alias("sizes_in_stock"),
        F.sum("stock").alias("stock"),
        F.sum("money").cast("decimal(28,2)").alias("money"),
    )
