"""silver.payment_outcomes: what must hold of all reports together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.payment_outcomes",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one report, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="payment_id")),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="outcome", value_set=["chargeback", "confirmed", "cleared"]
        )
    ),
)
