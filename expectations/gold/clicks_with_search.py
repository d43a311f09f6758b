"""gold.clicks_with_search: what must hold of all clicks and their searches together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.clicks_with_search",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="click_id")),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="click_id"),
        "a browser sent a click again after more than the hour in which that is noticed",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="micros", min_value=0, max_value=1_000_000),
        "a search leads to the clicks of the second after it, and to no others",
    ),
    blocking(
        gxe.ExpectColumnValuesToNotBeNull(column="user_id"),
        "a visitor nobody knows has no searches",
        where="search_id is not null",
    ),
    columns={"micros": "epoch_us(clicked_at) - epoch_us(searched_at)"},
)
