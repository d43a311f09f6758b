"""silver.sales: what must hold of all sales together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.sales",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one sale, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="sale_id"),
        "a sale was sent again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="model")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="size")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="quantity", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="off_by", min_value=0, max_value=0),
        "revenue is price times quantity, to the cent",
    ),
    columns={"off_by": "revenue - cast(unit_price as decimal(28, 2)) * quantity"},
)
