"""silver.fraud_rules: what must hold of all versions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.fraud_rules",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="card_kind")),
    blocking(
        gxe.ExpectColumnValuesToBeUnique(column="card_kind"),
        "at most one version is valid now",
        where="valid_to is null",
    ),
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["card_kind", "valid_from"]),
        "two versions never begin at the same moment: a join would find both",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid_to", column_B="valid_from", ignore_row_if="either_value_is_missing"
        ),
        "a version ends after it begins",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="max_payments", min_value=1)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="max_kmh", min_value=1)),
)
