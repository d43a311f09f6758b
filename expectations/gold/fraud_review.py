"""gold.fraud_review: what must hold of all reviewed payments together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.fraud_review",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="payment_id"), "one row per payment"),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="verdict",
            value_set=["caught", "missed", "false_alarm", "right", "open", "unknown"],
        )
    ),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="outcome"),
        "of what is open nothing was reported",
        where="verdict = 'open'",
    ),
)
