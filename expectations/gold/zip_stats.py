"""gold.zip_stats: what must hold of all zip codes together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.zip_stats",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["country", "zip_code"]),
        "one row per country and zip code",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="zip_code")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="clicks", min_value=1)),
)
