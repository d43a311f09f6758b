"""silver.shipments: what must hold of all deliveries together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.shipments",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one delivery, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="shipment_id"),
        "a delivery was sent again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="model")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="size")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="quantity", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="off_by", min_value=0, max_value=0),
        "cost is the cost of one times quantity, to the cent",
    ),
    columns={"off_by": "cost - cast(unit_cost as decimal(28, 2)) * quantity"},
)
