"""gold.stock_bars: each stock, minute by minute."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.columns import trading_day
from penstock.model import table, tumbling


@table(
    "gold.stock_bars",
    inputs={"trades": "silver.trades"},
    kind=tumbling("1 minute", on="traded_at", lateness="5 seconds"),
    keys=("ticker", "window_start"),
    freshness="20 seconds",
    owner="markets",
)
def stock_bars(trades: DataFrame) -> DataFrame:
    """One row per ticker and minute: first, last, least and greatest price, and its trading day.

    The exchange is in New York and its day begins there at 18:00, under the date of the next
    morning. Of trades at the same moment the first is the one sent first.
    """
    moment = F.struct("traded_at", "partition", "offset")
    return (
        trades.groupBy("ticker", "window_start", "window_end")
        .agg(
            F.min_by("price", moment).alias("open_price"),
            F.max_by("price", moment).alias("close_price"),
            F.min("price").alias("min_price"),
            F.max("price").alias("max_price"),
            F.count(F.lit(1)).alias("trades"),
        )
        .withColumn("trading_day", trading_day("window_start", "America/New_York", opens="18:00"))
    )
