"""gold.card_velocity: what must hold of all payments and their cards together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.card_velocity",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["card_id", "window_end", "payment_id"]),
        "one row per payment",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="payments", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="km", min_value=0, max_value=20100),
        "no two places are further apart",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="kmh", min_value=0)),
)
