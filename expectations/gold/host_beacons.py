"""gold.host_beacons: what must hold of all beacons together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.host_beacons",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["host", "address", "window_start"]),
        "one row per host, address and window",
    ),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="contacts", min_value=6)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="hosts", min_value=1, max_value=2)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="beat_ms", min_value=1)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="deviation_permille", min_value=0, max_value=100)
    ),
)
