"""silver.song_plays: what must hold of all plays together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.song_plays",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one play, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="play_id"),
        "a play was told again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="song_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="played_at")),
)
