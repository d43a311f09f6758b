"""gold.guest_journey: what must hold of all guests together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.guest_journey",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="guest_id"), "one row per guest"),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="state", value_set=["reserved", "confirmed", "in_house", "left"]
        )
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="minibar", min_value=0)),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="last_complaint"),
        "who did not complain said nothing",
        where="complaints = 0",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="past_visits", min_value=0)),
)
