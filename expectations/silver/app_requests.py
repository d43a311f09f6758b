"""silver.app_requests: what must hold of all requests together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "silver.app_requests",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one request, never two",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="service")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="status", min_value=100, max_value=599)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="latency_ms", min_value=0)),
)
