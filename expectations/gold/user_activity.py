"""gold.user_activity: what must hold of all views together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.user_activity",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="click_id")),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="click_id"),
        "a browser sent a click again after more than the hour in which that is noticed",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="tier"),
        "of a visitor nobody knows there is no profile",
        where="not known",
    ),
    warning(
        gxe.ExpectColumnMeanToBeBetween(column="known_share", min_value=0.3),
        "fewer visitors are known than usual: change capture of users may be behind",
    ),
    columns={"known_share": "cast(known as integer)"},
)
