"""silver.truck_positions: what must hold of all sightings together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.truck_positions",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one sighting, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="truck_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="route_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="region")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="merchandise", min_value=0)),
    warning(
        gxe.ExpectColumnUniqueValueCountToBeBetween(column="region", max_value=100),
        "regions are few; many of them mean that spellings differ",
    ),
)
