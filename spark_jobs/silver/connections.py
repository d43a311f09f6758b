"""silver.connections: connections of hosts, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.connections import CONNECTIONS
from spark_jobs.shared import coordinates


@table(
    "silver.connections",
    inputs={"connections": CONNECTIONS},
    kind=Rows(),
    dedupe=Dedupe(key=("connection_id",), within="1 hour"),
    freshness="20 seconds",
    owner="security",
)
def connections(connections: DataFrame) -> DataFrame:
    """One row per connection that a host opened."""
    return connections.select(
        "connection_id", "host", "address", "sent_bytes", "connected_at", *coordinates()
    )
