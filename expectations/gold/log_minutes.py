"""gold.log_minutes: what must hold of all services and minutes together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.log_minutes",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["service", "window_start"]),
        "one row per service and minute",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="lines", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="lines", column_B="errors", or_equal=True
        ),
        "an error is a line",
    ),
)
