"""gold.result_clicks: what must hold of all queries and pages together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.result_clicks",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["query", "page"]),
        "one row per query and page",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="query")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="clicks", min_value=1)),
)
