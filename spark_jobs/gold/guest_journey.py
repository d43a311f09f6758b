"""gold.guest_journey: how each guest of the hotel is doing."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.guest_journey",
    inputs={"events": "silver.hotel_events", "loyalty": "silver.loyalty"},
    kind=Group(by=("guest_id",)),
    keys=("guest_id",),
    freshness="20 seconds",
    owner="hotel",
)
def guest_journey(events: DataFrame, loyalty: DataFrame) -> DataFrame:
    """One row per guest: the stay of the newest event, past visits, and loyalty as it was then.

    A past visit is another stay that the guest has left. A guest of whom nothing has happened yet
    has no row, whatever loyalty says.
    """
    newest = F.max(F.struct("happened_at", "partition", "offset", "stay_id"))
    told = events.withColumn("newest", newest.over(Window.partitionBy("guest_id")))
    now = F.col("stay_id") == F.col("newest.stay_id")
    left = F.when(~now & (F.col("event") == "check_out"), F.col("stay_id"))
    complaint = F.when(now & (F.col("event") == "complaint"), F.struct("happened_at", "text"))
    journeys = told.groupBy("guest_id", "newest").agg(
        *(_first(event) for event in ("reservation", "confirmation", "check_in", "check_out")),
        F.coalesce(F.sum(F.when(now & (F.col("event") == "minibar"), F.col("amount"))), F.lit(0))
        .cast("decimal(18,2)")
        .alias("minibar"),
        F.count(complaint).alias("complaints"),
        F.max(complaint)["text"].alias("last_complaint"),
        F.count_distinct(left).alias("past_visits"),
    )
    member = loyalty.select(
        F.col("guest_id").alias("member"), "name", "level", "points", "valid_from", "valid_to"
    )
    at = F.col("newest.happened_at")
    valid = (F.col("valid_from") <= at) & (F.col("valid_to").isNull() | (at < F.col("valid_to")))
    known = journeys.join(member, (F.col("guest_id") == F.col("member")) & valid, "left")
    return known.select(
        "guest_id",
        "name",
        "level",
        "points",
        F.col("newest.stay_id").alias("stay_id"),
        _state().alias("state"),
        F.col("reservation").alias("reserved_at"),
        F.col("confirmation").alias("confirmed_at"),
        F.col("check_in").alias("checked_in_at"),
        F.col("check_out").alias("checked_out_at"),
        "minibar",
        "complaints",
        "last_complaint",
        "past_visits",
        at.alias("last_event_at"),
    )


def _first(event: str) -> Column:
    """When this first happened in the stay of the newest event."""
    here = (F.col("stay_id") == F.col("newest.stay_id")) & (F.col("event") == event)
    return F.min(F.when(here, F.col("happened_at"))).alias(event)


def _state() -> Column:
    """How far the stay has come, in whatever order its events were told."""
    return (
        F.when(F.col("check_out").isNotNull(), "left")
        .when(F.col("check_in").isNotNull(), "in_house")
        .when(F.col("confirmation").isNotNull(), "confirmed")
        .otherwise("reserved")
    )
