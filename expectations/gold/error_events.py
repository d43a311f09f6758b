"""gold.error_events: what must hold of all errors together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.error_events",
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="log_id"),
        "an agent sent a line again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="log_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="logged_at")),
)
