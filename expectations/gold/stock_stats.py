"""gold.stock_stats: what must hold of all windows together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.stock_stats",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["ticker", "window_start"]),
        "one row per ticker and window",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="seconds", min_value=5, max_value=5),
        "every window is five seconds long",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="trades", min_value=1)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="avg_price", min_value=0.0001)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="min_ask_price", min_value=0.0001)),
    warning(
        gxe.ExpectColumnMeanToBeBetween(column="open_share", max_value=0.5),
        "most windows are final; if not, the watermark does not move",
        where="window_start < (select max(window_start) from every_row) - interval 1 minute",
    ),
    columns={
        "seconds": "epoch(window_end) - epoch(window_start)",
        "open_share": "cast(not is_final as integer)",
    },
)
