"""silver.trades: trades that keep their contract, typed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Rows, table
from spark_jobs.bronze.trades import TRADES


@table("silver.trades", inputs={"trades": TRADES}, kind=Rows(), owner="markets")
def trades(trades: DataFrame) -> DataFrame:
    """One row per trade, with what it was worth. Keeps its place in the topic for lineage."""
    return trades.select(
        "ticker",
        "price",
        "ask_price",
        "size",
        "side",
        (F.col("price") * F.col("size")).cast("decimal(24,4)").alias("notional"),
        F.col("event_time").alias("traded_at"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
    )
