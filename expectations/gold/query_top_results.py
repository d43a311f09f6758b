"""gold.query_top_results: what must hold of all queries together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.query_top_results",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="query"), "one row per query"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="page")),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="all_clicks", column_B="clicks", or_equal=True
        ),
        "the best result has no more clicks than all together",
    ),
)
