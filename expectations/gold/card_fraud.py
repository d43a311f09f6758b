"""gold.card_fraud: what must hold of all decisions together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.card_fraud",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="payment_id"), "one decision per payment"),
    blocking(gxe.ExpectColumnValuesToBeInSet(column="decision", value_set=["approve", "deny"])),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(column="reasons", value_set=[""]),
        "what is approved has no reason against it",
        where="decision = 'approve'",
    ),
    blocking(
        gxe.ExpectColumnValuesToMatchRegex(column="reasons", regex=r"^(?:velocity|travel|amount)"),
        "what is denied has a reason",
        where="decision = 'deny'",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="paid_at",
            column_B="rules_from",
            or_equal=True,
            ignore_row_if="either_value_is_missing",
        ),
        "a payment is judged by the rules of its moment, never by later ones",
    ),
)
