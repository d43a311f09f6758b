"""gold.song_hours: what must hold of all plays of a hour together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.song_hours",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(
            column_list=["period", "frame", "song_id", "window_start"]
        ),
        "one row per song, hour and frame",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="plays", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="frame", column_B="window_start"),
        "a step counts ahead only for a frame after it",
        where="ahead",
    ),
)
