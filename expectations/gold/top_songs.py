"""gold.top_songs: what must hold of all rankings together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.top_songs",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["period", "frame", "rank"]),
        "one song per place of a list",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["period", "frame", "song_id"]),
        "a song has one place in a list",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="rank", min_value=1, max_value=10)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="plays", min_value=1)),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="until", column_B="since"),
        "a period ends after it begins",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="period", value_set=["5 minutes", "day", "week", "month"]
        )
    ),
)
