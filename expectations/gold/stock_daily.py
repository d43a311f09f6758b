"""gold.stock_daily: what must hold of all trading days together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.stock_daily",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["ticker", "trading_day"]),
        "one row per ticker and trading day",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="trades", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="max_price", column_B="min_price", or_equal=True
        )
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="outside", min_value=0, max_value=0),
        "the first and the last price lie between the least and the greatest",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="off_by", min_value=0, max_value=0),
        "what was gained is close less open, to the last digit",
    ),
    columns={
        "outside": "greatest(min_price - least(open_price, close_price), "
        "greatest(open_price, close_price) - max_price, 0)",
        "off_by": "gain - (close_price - open_price)",
    },
)
