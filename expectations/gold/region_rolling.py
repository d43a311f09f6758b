"""gold.region_rolling: what must hold of all regions and moments together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.region_rolling",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["region", "window_end"]),
        "one row per region and moment",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="trucks", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="sightings", column_B="trucks", or_equal=True
        ),
        "a truck that counts was seen",
    ),
)
