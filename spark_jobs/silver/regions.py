"""silver.regions: every version of every region."""

from pyspark.sql import DataFrame

from penstock.model import table
from spark_jobs.bronze.regions import REGIONS
from spark_jobs.captured import captured, history


@table(
    "silver.regions",
    inputs={"regions": REGIONS},
    kind=history("region"),
    freshness="20 seconds",
    owner="logistics",
)
def regions(regions: DataFrame) -> DataFrame:
    """One row per region and version, valid from when Postgres committed it until the next one."""
    return regions.select("region", "title", "manager", "updated_at", *captured())
