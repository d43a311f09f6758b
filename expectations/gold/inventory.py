"""gold.inventory: what must hold of the whole stock."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.inventory",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["model", "size"]),
        "one row per model and size",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="stock")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="money")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="transactions", min_value=1)),
    warning(
        gxe.ExpectColumnValuesToBeBetween(column="stock", min_value=0, mostly=0.5),
        "stock below zero is a sale that was booked before its delivery; not so many of them",
    ),
)
