"""gold.stock_stats: a moving picture of each stock."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import hopping, table


@table(
    "gold.stock_stats",
    inputs={"trades": "silver.trades"},
    kind=hopping("5 seconds", every="1 second", on="traded_at", lateness="2 seconds", updates=True),
    keys=("ticker", "window_start"),
    freshness="5 seconds",
    owner="markets",
)
def stock_stats(trades: DataFrame) -> DataFrame:
    """One row per ticker and five seconds, every second: lowest ask, trades, mean price.

    A window is written as soon as it has a trade and again as it fills; is_final says when its
    numbers stand.
    """
    return trades.groupBy("ticker", "window_start", "window_end").agg(
        F.min("ask_price").alias("min_ask_price"),
        F.count(F.lit(1)).alias("trades"),
        F.avg("price").alias("avg_price"),
    )
