"""gold.other_events: what must hold of all lines but errors together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "gold.other_events",
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="log_id"),
        "an agent sent a line again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="log_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="logged_at")),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(column="level", value_set=["DEBUG", "INFO", "WARN"]),
        "an error belongs to the branch with high priority",
    ),
)
