"""silver.trades: what must hold of all trades together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.trades",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one trade, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="ticker")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="traded_at")),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(column="side", value_set=["buy", "sell"]),
        "a third side would be counted on neither",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="off_by", min_value=0, max_value=0),
        "notional is price times size, to the last digit",
    ),
    warning(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="ask_price", column_B="price", or_equal=True, mostly=0.99
        ),
        "now and then a trade is above the ask; often means a feed is behind",
    ),
    warning(
        gxe.ExpectColumnMedianToBeBetween(column="price", min_value=0.01, max_value=100_000),
        "prices in another unit would pass every check of a single row",
        sample=100_000,
    ),
    columns={"off_by": "notional - cast(price as decimal(28, 4)) * size"},
)
