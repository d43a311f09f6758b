"""gold.word_counts: what must hold of all words together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.word_counts",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="word"), "one row per word"),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="occurrences", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="odd", min_value=0, max_value=0),
        'words are in lower case, and "the" is none of them',
    ),
    columns={"odd": "cast(word <> lower(word) or word in ('', 'the') as integer)"},
)
