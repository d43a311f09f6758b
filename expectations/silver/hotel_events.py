"""silver.hotel_events: what must hold of all events of guests together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.hotel_events",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one event, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="guest_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="stay_id")),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="event",
            value_set=[
                "reservation",
                "confirmation",
                "check_in",
                "minibar",
                "complaint",
                "check_out",
            ],
        )
    ),
    blocking(
        gxe.ExpectColumnValuesToBeNull(column="amount"),
        "only a minibar takes money",
        where="event <> 'minibar'",
    ),
)
