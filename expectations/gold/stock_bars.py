"""gold.stock_bars: what must hold of all minutes together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.stock_bars",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["ticker", "window_start"]),
        "one row per ticker and minute",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="seconds", min_value=60, max_value=60),
        "every bar is a minute long",
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
    columns={
        "seconds": "epoch(window_end) - epoch(window_start)",
        "outside": "greatest(min_price - least(open_price, close_price), "
        "greatest(open_price, close_price) - max_price, 0)",
    },
)
