"""silver.searches: searches that keep their contract, each once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.searches import SEARCHES
from spark_jobs.shared import coordinates


@table(
    "silver.searches",
    inputs={"searches": SEARCHES},
    kind=Rows(),
    dedupe=Dedupe(key=("search_id",), within="1 hour"),
    freshness="20 seconds",
    owner="web",
)
def searches(searches: DataFrame) -> DataFrame:
    """One row per search; the query in lower case, without space around it and one space inside."""
    query = F.trim(F.regexp_replace(F.lower("query"), r"\s+", " "))
    return searches.select(
        "search_id", "user_id", query.alias("query"), "searched_at", *coordinates()
    )
