"""silver.regions: what must hold of all versions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.regions",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="region")),
    blocking(
        gxe.ExpectColumnValuesToBeUnique(column="region"),
        "at most one version is valid now",
        where="valid_to is null",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["region", "valid_from"]),
        "two versions never begin at the same moment: a join would find both",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid_to", column_B="valid_from", ignore_row_if="either_value_is_missing"
        ),
        "a version ends after it begins",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="manager")),
)
