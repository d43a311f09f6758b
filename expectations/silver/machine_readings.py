"""silver.machine_readings: what must hold of all measurements of machines together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.machine_readings",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one measurement, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="machine_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="measured_at")),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="temperature", min_value=-50000, max_value=500000),
        "thousandths of a degree",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="vibration", min_value=0, max_value=500000)),
)
