"""gold.truck_last_seen: what must hold of all trucks together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.truck_last_seen",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="truck_id"), "one row per truck"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="seen_at")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="region")),
)
