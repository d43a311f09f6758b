"""gold.machine_alerts: what must hold of all alarms together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.machine_alerts",
    blocking(
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["machine_id", "window_end"]),
        "one row per machine and step",
    ),
    blocking(
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="temperature", column_B="usual_temperature", or_equal=True
        ),
        "what alarms is above the usual",
        where="temperature_alarm",
    ),
    blocking(
        gxe.ExpectColumnValuesToBeInSet(column="alarms", value_set=[1, 2]),
        "a row without an alarm is none",
    ),
    columns={"alarms": "cast(temperature_alarm as integer) + cast(vibration_alarm as integer)"},
)
