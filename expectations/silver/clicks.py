"""silver.clicks: what must hold of all page views together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.clicks",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one page view, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="click_id"),
        "a browser sent a click again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="click_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="clicked_at")),
    blocking(gxe.ExpectColumnValuesToMatchRegex(column="page", regex=r"^/")),
    warning(
        gxe.ExpectColumnValuesToNotBeNull(column="user_id", mostly=0.5),
        "visitors may be unknown, but not most of them: the sign-in may be broken",
    ),
)
