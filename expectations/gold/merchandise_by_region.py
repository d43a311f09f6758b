"""gold.merchandise_by_region: what must hold of all regions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.merchandise_by_region",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="region"), "one row per region"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="region")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="merchandise", min_value=0)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="pairs", column_B="trucks", or_equal=True
        ),
        "a truck is counted once, its routes one by one",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="p95_load", column_B="median_load", or_equal=True
        )
    ),
)
