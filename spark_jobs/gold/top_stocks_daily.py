"""gold.top_stocks_daily: the day's winners."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.model import Group, table

_MOST = 10


@table(
    "gold.top_stocks_daily",
    inputs={"days": "gold.stock_daily"},
    kind=Group(by=("trading_day",)),
    keys=("trading_day", "rank"),
    freshness="1 minute",
    owner="markets",
)
def top_stocks_daily(days: DataFrame) -> DataFrame:
    """One row per trading day and rank: the ten stocks that gained most from open to close.

    By gain_percent; of equal ones the first in the alphabet. A stock that did not gain has no rank.
    """
    best = Window.partitionBy("trading_day").orderBy(F.desc("gain_percent"), "ticker")
    return (
        days.where("gain > 0")
        .withColumn("rank", F.row_number().over(best))
        .where(F.col("rank") <= _MOST)
        .select(
            "trading_day", "rank", "ticker", "open_price", "close_price", "gain", "gain_percent"
        )
    )
