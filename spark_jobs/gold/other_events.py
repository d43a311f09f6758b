"""gold.other_events: what can be read tomorrow."""

from pyspark.sql import DataFrame

from penstock.model import Rows, events, table


@table(
    "gold.other_events",
    inputs={"logs": "silver.app_logs"},
    kind=Rows(),
    keys=("log_id",),
    freshness="1 minute",
    owner="platform",
)
def other_events(logs: DataFrame) -> DataFrame:
    """One row per line of any level but ERROR: the branch with low priority."""
    return logs.where("level <> 'ERROR'").select(
        "log_id", "service", "host", "level", "message", "logged_at"
    )


OTHERS_OUT = events(other_events, topic="out.others_low", corrections=False)
