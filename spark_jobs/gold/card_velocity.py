"""gold.card_velocity: how fast each card is used, and how fast it travels."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model import sliding, table

_EARTH = 6371.0  # kilometres from the middle to the surface


@table(
    "gold.card_velocity",
    inputs={"payments": "silver.card_payments"},
    kind=sliding(
        "2 hours", by=("card_id",), on="paid_at", updatable_for="10 minutes", updates=True
    ),
    keys=("card_id", "window_end", "payment_id"),
    freshness="5 seconds",
    owner="payments",
)
def card_velocity(payments: DataFrame) -> DataFrame:
    """One row per payment, with what its card did last.

    ``payments`` are those of the minute up to this one, itself included; ``km`` and ``kmh`` the way
    from the card's payment before it in the last two hours, 0 where there is none. Payments of one
    card at one moment come one after the other by their names.
    """
    columns = ("payment_id", "card_kind", "merchant", "amount", "latitude", "longitude")
    gathered = payments.groupBy("card_id", "window_end").agg(
        F.array_sort(F.collect_list(F.struct("paid_at", *columns))).alias("known")
    )
    each = gathered.select(
        "card_id", "window_end", "known", F.posexplode("known").alias("place", "one")
    )
    now = each.where(F.col("one.paid_at") == F.col("window_end"))
    moved = now.withColumn("last", F.expr("if(place > 0, known[place - 1], null)")).select(
        "*",
        # Not a null that runs through: least and greatest pass nulls over.
        F.when(F.col("last").isNull(), 0).otherwise(_km()).alias("km"),
        # Two payments at one moment are a microsecond apart: nobody is in two places.
        F.greatest(F.unix_micros("one.paid_at") - F.unix_micros("last.paid_at"), F.lit(1)).alias(
            "micros"
        ),
    )
    recent = "filter(slice(known, 1, place + 1), p -> p.paid_at > one.paid_at - interval 1 minute)"
    return moved.select(
        "card_id",
        "window_end",
        "one.*",
        F.expr(f"size({recent})").alias("payments"),
        "km",
        F.expr("km * 3600000000L div micros").alias("kmh"),
    )


def _km() -> Column:
    """The great circle from the payment before to this one, in whole kilometres."""
    here, there = F.radians("one.latitude"), F.radians("last.latitude")
    north = F.sin((here - there) / 2)
    east = F.sin((F.radians("one.longitude") - F.radians("last.longitude")) / 2)
    chord = north * north + F.cos(here) * F.cos(there) * east * east
    return F.round(2 * _EARTH * F.asin(F.sqrt(F.least(chord, F.lit(1.0))))).cast("bigint")
