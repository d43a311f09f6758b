"""gold.stock_stats: a moving picture of each stock."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import hopping, table


@table(
    "gold.stock_stats",
    inputs={"trades": "silver.trades"},
    kind=hopping("5 seconds", every="1 second", on="traded_at", lateness="2 seconds"),
    keys=("ticker", "window_start"),
    owner="markets",
)
def stock_stats(trades: DataFrame) -> DataFrame:
    """Per ticker, five-second windows advancing by one second: lowest ask, trades, mean price."""
    return trades.groupBy("ticker", "window_start", "window_end").agg(
        F.min("ask_price").alias("min_ask_price"),
        F.count(F.lit(1)).alias("trades"),
        F.avg("price").alias("avg_price"),
    )
