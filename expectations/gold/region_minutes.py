"""gold.region_minutes: what must hold of all minutes of all regions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.region_minutes",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["region", "truck_id", "window_start"]),
        "one row per region, truck and minute",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="sightings", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="ended_at", column_B="window_start"),
        "a minute ends after it begins",
    ),
)
