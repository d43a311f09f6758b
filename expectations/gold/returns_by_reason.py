"""gold.returns_by_reason: what must hold of all reasons together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.returns_by_reason",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="reason"), "one row per reason"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="reason")),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="quantity", column_B="returns", or_equal=True
        ),
        "a return is of one pair at least",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="refunded", min_value=0)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="median_quantity", min_value=1)),
)
