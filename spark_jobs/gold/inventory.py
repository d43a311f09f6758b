"""gold.inventory: what the shop has and what it earned, by model and size."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model import Totals, changelog, table


@table(
    "gold.inventory",
    inputs={
        "shipments": "silver.shipments",
        "sales": "silver.sales",
        "returns": "silver.returns",
    },
    kind=Totals(by=("model", "size")),
    freshness="10 seconds",
    owner="shop",
)
def inventory(shipments: DataFrame, sales: DataFrame, returns: DataFrame) -> DataFrame:
    """One row per model and size: pairs in stock, money made, transactions booked.

    What comes in adds to the stock and what is sold takes from it; deliveries cost money, sales
    bring it in, returns pay it back. Stock below zero means a sale was booked before its delivery.
    """
    received = _booked(shipments, F.col("quantity"), -F.col("cost"))
    sold = _booked(sales, -F.col("quantity"), F.col("revenue"))
    returned = _booked(returns, F.col("quantity"), -F.col("refunded"))
    return received.unionByName(sold).unionByName(returned)


def _booked(rows: DataFrame, pairs: Column, money: Column) -> DataFrame:
    """What each row adds to its model and size."""
    return rows.select(
        "model",
        "size",
        pairs.cast("bigint").alias("stock"),
        money.cast("decimal(28,2)").alias("money"),
        F.lit(1).cast("bigint").alias("transactions"),
    )


INVENTORY_CHANGES = changelog(inventory)
