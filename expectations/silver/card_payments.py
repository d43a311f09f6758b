"""silver.card_payments: what must hold of all payments together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.card_payments",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one payment, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="payment_id"),
        "a terminal asked again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="card_id")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="amount", min_value=0.01)),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="card_kind", value_set=["debit", "credit", "prepaid"]
        )
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="latitude", min_value=-90, max_value=90)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="longitude", min_value=-180, max_value=180)),
)
