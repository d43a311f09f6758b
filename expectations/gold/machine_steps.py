"""gold.machine_steps: what must hold of all steps of all machines together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.machine_steps",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["machine_id", "window_start"]),
        "one row per machine and step",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="readings", min_value=1)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="vibration", min_value=0)),
)
