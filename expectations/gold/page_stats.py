"""gold.page_stats: what must hold of all pages together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.page_stats",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="page"), "one row per page"),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="clicks", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="clicks", column_B="logged_in", or_equal=True
        ),
        "who is logged in clicks no more than all together",
    ),
)
