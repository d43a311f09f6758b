"""silver.readings: what must hold of all measurements together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.readings",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one measurement, never two",
    ),
    warning(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["sensor_id", "measured_at"]),
        "a sensor sent a measurement again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="sensor_id")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="measured_at")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="value")),
    blocking(
        gxe.ExpectColumnDistinctValuesToBeInSet(column="unit", value_set=["celsius"]),
        "values of two units cannot be averaged",
    ),
    warning(
        gxe.ExpectColumnMeanToBeBetween(column="calibration_share", max_value=0.2),
        "calibration is rare; many such readings mean that a flag is stuck",
    ),
    columns={"calibration_share": "cast(calibration as integer)"},
)
