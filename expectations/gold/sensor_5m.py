"""gold.sensor_5m: what must hold of all sensors and windows together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.sensor_5m",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["sensor_id", "window_start"]),
        "one row per sensor and window",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="minutes", min_value=5, max_value=5),
        "every window is five minutes long",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="readings", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="max_value", column_B="min_value", or_equal=True
        )
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="max_value", column_B="p95_value", or_equal=True
        )
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="mean_outside", min_value=0, max_value=0.000001),
        "a mean lies between the least and the greatest value, to the millionth it is computed to",
    ),
    columns={
        "minutes": "(epoch(window_end) - epoch(window_start)) / 60",
        "mean_outside": "greatest(min_value - mean_value, mean_value - max_value, 0)",
    },
)
