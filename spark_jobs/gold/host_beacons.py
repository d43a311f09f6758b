"""gold.host_beacons: hosts that contact an address hardly anybody knows, at a regular beat."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.model import hopping, table

_CONTACTS = 6  # fewer do not make a beat
_HOSTS = 2  # an address that more hosts contact is nothing unusual
_REGULAR = 10  # the mean gap over its standard deviation, at least: one part in ten


@table(
    "gold.host_beacons",
    inputs={"connections": "silver.connections"},
    kind=hopping("10 minutes", every="1 minute", on="connected_at", lateness="10 seconds"),
    keys=("host", "address", "window_start"),
    freshness="20 seconds",
    owner="security",
)
def host_beacons(connections: DataFrame) -> DataFrame:
    """One row per host, address and ten minutes, every minute, in which the host seems to beacon.

    The address was contacted by at most two hosts, by this one at least six times, and the standard
    deviation of the gaps between its contacts is at most a tenth of their mean.
    """
    pairs = connections.groupBy("host", "address", "window_start", "window_end").agg(
        F.array_sort(F.collect_list(F.unix_millis("connected_at"))).alias("times")
    )
    known = Window.partitionBy("address", "window_start")
    few = pairs.withColumn("hosts", F.count(F.lit(1)).over(known)).where(
        (F.col("hosts") <= _HOSTS) & (F.size("times") >= _CONTACTS)
    )
    gaps = F.expr(
        "zip_with(slice(times, 2, size(times)), slice(times, 1, size(times) - 1), (b, a) -> b - a)"
    )
    measured = few.withColumn("gaps", gaps).select(
        "*",
        F.size("gaps").cast("bigint").alias("n"),
        F.expr("aggregate(gaps, 0L, (a, g) -> a + g)").alias("total"),
        F.expr("aggregate(gaps, 0L, (a, g) -> a + g * g)").alias("squares"),
    )
    # Of n gaps: (deviation / mean) squared is spread / total squared. Whole numbers, so exact.
    spread = F.col("n") * F.col("squares") - F.col("total") * F.col("total")
    regular = (F.col("total") > 0) & (spread * (_REGULAR**2) <= F.col("total") * F.col("total"))
    return measured.where(regular).select(
        "host",
        "address",
        "window_start",
        "window_end",
        (F.col("n") + 1).alias("contacts"),
        "hosts",
        F.expr("total div n").alias("beat_ms"),
        F.floor(F.sqrt(spread) * 1000 / F.col("total")).alias("deviation_permille"),
    )
