"""silver.app_logs: what must hold of all lines together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite, warning

SUITE = suite(
    "silver.app_logs",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "offset"]),
        "a record of the topic becomes one line, never two",
    ),
    warning(
        gxe.ExpectColumnValuesToBeUnique(column="log_id"),
        "an agent sent a line again after more than the hour in which that is noticed",
    ),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="service")),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(
            column="level", value_set=["DEBUG", "INFO", "WARN", "ERROR"]
        ),
        "another level would be in neither branch as people expect it",
    ),
    warning(
        gxe.ExpectColumnMeanToBeBetween(column="error_share", max_value=0.5),
        "more errors than anything else: a service is down, or logs nothing but errors",
    ),
    columns={"error_share": "cast(level = 'ERROR' as integer)"},
)
