"""silver.loyalty: what must hold of all versions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.loyalty",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="guest_id")),
    blocking(
        gxe.ExpectColumnValuesToBeUnique(column="guest_id"),
        "at most one version is valid now",
        where="valid_to is null",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["guest_id", "valid_from"]),
        "two versions never begin at the same moment: a join would find both",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid_to", column_B="valid_from", ignore_row_if="either_value_is_missing"
        ),
        "a version ends after it begins",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(column="level", value_set=["bronze", "silver", "gold"])
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="points", min_value=0)),
)
