"""gold.app_metrics: what must hold of all services and minutes together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.app_metrics",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["service", "window_start"]),
        "one row per service and minute",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="requests", column_B="failures", or_equal=True
        ),
        "a failure is a request",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="lines", column_B="errors", or_equal=True
        ),
        "an error is a line",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="p99_ms"),
        "nobody waited where nobody asked",
        where="requests = 0",
    ),
)
