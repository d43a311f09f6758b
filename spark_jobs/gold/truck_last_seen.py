"""gold.truck_last_seen: where each truck is, as far as anybody knows."""

from pyspark.sql import DataFrame

from penstock.model import Latest, table


@table(
    "gold.truck_last_seen",
    inputs={"positions": "silver.truck_positions"},
    kind=Latest(by=("truck_id",), order=("seen_at", "partition", "offset")),
    freshness="20 seconds",
    owner="logistics",
)
def truck_last_seen(positions: DataFrame) -> DataFrame:
    """One row per truck: when it was last seen, where, on which route and with which load."""
    return positions.select(
        "truck_id", "seen_at", "region", "route_id", "merchandise", "partition", "offset"
    )
