"""gold.request_minutes: what must hold of all services and minutes together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.request_minutes",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["service", "window_start"]),
        "one row per service and minute",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="requests", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="requests", column_B="failures", or_equal=True
        ),
        "a failure is a request",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="p99_ms", column_B="p50_ms", or_equal=True
        ),
        "a percentile is not below a smaller one",
    ),
)
