"""gold.top_stocks_daily: what must hold of all days and ranks together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.top_stocks_daily",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["trading_day", "rank"]),
        "one row per trading day and rank",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["trading_day", "ticker"]),
        "a stock is among the winners of a day once",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="rank", min_value=1, max_value=10)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="gain", strict_min=True, min_value=0),
        "who did not gain has no rank",
    ),
)
