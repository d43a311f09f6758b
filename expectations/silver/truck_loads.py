"""silver.truck_loads: what must hold of all loads together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.truck_loads",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["region", "truck_id", "route_id"]),
        "one row per region, truck and route: the last load that was declared",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="region")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="truck_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="route_id")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="merchandise", min_value=0)),
)
