"""gold.stock_daily: each stock's trading days."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.stock_daily",
    # From minutes, not from trades: a day of a busy stock is 1,440 rows instead of millions.
    inputs={"bars": "gold.stock_bars"},
    kind=Group(by=("ticker", "trading_day")),
    keys=("ticker", "trading_day"),
    freshness="1 minute",
    owner="markets",
)
def stock_daily(bars: DataFrame) -> DataFrame:
    """One row per ticker and trading day: open, close, least, greatest price, and what it gained.

    gain is close less open; gain_percent is the same of the open price, to the fourth digit.
    """
    gain = F.col("close_price") - F.col("open_price")
    return (
        bars.groupBy("ticker", "trading_day")
        .agg(
            F.min_by("open_price", "window_start").alias("open_price"),
            F.max_by("close_price", "window_start").alias("close_price"),
            F.min("min_price").alias("min_price"),
            F.max("max_price").alias("max_price"),
            F.sum("trades").alias("trades"),
        )
        .withColumn("gain", gain.cast("decimal(13,4)"))
        .withColumn("gain_percent", (gain * 100 / F.col("open_price")).cast("decimal(18,4)"))
    )
