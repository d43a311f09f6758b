"""silver.users: what must hold of all versions of all users together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.users",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="user_id")),
    blocking(
        gxe.ExpectColumnValuesToBeUnique(column="user_id"),
        "a user has at most one version that is valid now",
        where="valid_to is null",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["user_id", "valid_from"]),
        "two versions of a user never begin at the same moment: a join would find both",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid_to", column_B="valid_from", ignore_row_if="either_value_is_missing"
        ),
        "a version ends after it begins",
    ),
    blocking(gxe.ExpectColumnValuesToBeInSet(column="tier", value_set=["basic", "plus", "gold"])),
)
