"""silver.connections: what must hold of all connections together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.connections",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one connection, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="host")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="address")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="sent_bytes", min_value=0)),
)
