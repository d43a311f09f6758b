"""silver.hotel_events: what happened to guests, each event once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.hotel_events import HOTEL_EVENTS
from spark_jobs.shared import coordinates


@table(
    "silver.hotel_events",
    inputs={"hotel_events": HOTEL_EVENTS},
    kind=Rows(),
    dedupe=Dedupe(key=("event_id",), within="1 hour"),
    freshness="20 seconds",
    owner="hotel",
)
def hotel_events(hotel_events: DataFrame) -> DataFrame:
    """One row per event of a guest's stay."""
    return hotel_events.select(
        "event_id", "guest_id", "stay_id", "event", "amount", "text", "happened_at", *coordinates()
    )
