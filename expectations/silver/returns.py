"""silver.returns: what must hold of all returns together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.returns",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one return, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="return_id"),
        "a return was sent again after more than the hour in which that is noticed",
    ),
    blocking(
        gxe.ExpectColumnValuesToNotBeNull(column="sale_id"),
        "nothing can come back that was not sold",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="reason")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="quantity", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="off_by", min_value=0, max_value=0),
        "what was paid back is price times quantity, to the cent",
    ),
    warning(
        gxe.ExpectColumnUniqueValueCountToBeBetween(column="reason", max_value=20),
        "many reasons mean that somebody types them by hand",
    ),
    columns={"off_by": "refunded - cast(unit_price as decimal(28, 2)) * quantity"},
)
