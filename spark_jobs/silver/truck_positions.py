"""silver.truck_positions: sightings of trucks that keep their contract."""

from pyspark.sql import DataFrame

from penstock.model import Rows, table
from spark_jobs.bronze.truck_positions import TRUCK_POSITIONS
from spark_jobs.shared import coordinates


@table(
    "silver.truck_positions",
    inputs={"positions": TRUCK_POSITIONS},
    kind=Rows(),
    freshness="10 seconds",
    owner="logistics",
)
def truck_positions(positions: DataFrame) -> DataFrame:
    """One row per sighting. A sighting sent again stays: the latest of two equal ones is either."""
    return positions.select(
        "truck_id", "route_id", "region", "merchandise", "seen_at", *coordinates()
    )
