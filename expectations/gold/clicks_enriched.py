"""gold.clicks_enriched: what must hold of all page views and their visitors together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.clicks_enriched",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="click_id")),
    blocking(gxe.ExpectColumnValuesToBeUnique(column="click_id"), "one row per click"),
    blocking(
        gxe.ExpectColumnValuesToNotBeNull(column="user_id"),
        "nobody is known without an id",
        where="known",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="tier"),
        "of a visitor nobody knows there is no profile",
        where="not known",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="clicked_at",
            column_B="profile_from",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
        "a click is joined with the profile of its moment, never with a later one",
    ),
    warning(
        gxe.ExpectColumnMeanToBeBetween(column="known_share", min_value=0.3),
        "fewer visitors are known than usual: change capture of users may be behind",
    ),
    columns={"known_share": "cast(known as integer)"},
)
