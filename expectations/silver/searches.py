"""silver.searches: what must hold of all searches together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.searches",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one search, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="search_id"),
        "a browser sent a search again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="searched_at")),
    blocking(
        gxe.ExpectColumnValuesToMatchRegex(column="query", regex=r"^\S+(?: \S+)*$"),
        "queries have one space between words and none around them",
    ),
)
