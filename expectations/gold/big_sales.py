"""gold.big_sales: what must hold of all big sales together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.big_sales",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="sale_id"), "nobody is told twice"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="salesperson"), "somebody is told"),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="revenue", min_value=10_000, strict_min=True)
    ),
)
