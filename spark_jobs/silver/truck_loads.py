"""silver.truck_loads: what each truck last declared, on each route and in each region."""

from pyspark.sql import DataFrame

from penstock.model import Latest, table


@table(
    "silver.truck_loads",
    inputs={"positions": "silver.truck_positions"},
    # A truck keeps to one partition: of two sightings at the same moment the one sent later wins.
    kind=Latest(by=("region", "truck_id", "route_id"), order=("seen_at", "partition", "offset")),
    freshness="10 seconds",
    owner="logistics",
)
def truck_loads(positions: DataFrame) -> DataFrame:
    """One row per region, truck and route: the load declared when last seen there."""
    return positions.select(
        "region", "truck_id", "route_id", "merchandise", "seen_at", "partition", "offset"
    )
