"""gold.result_clicks: what people open right after a search."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Totals, table


@table(
    "gold.result_clicks",
    inputs={"clicks": "gold.clicks_with_search"},
    kind=Totals(by=("query", "page")),
    freshness="20 seconds",
    owner="web",
)
def result_clicks(clicks: DataFrame) -> DataFrame:
    """One row per query and page: how often the page was clicked within a second of the search."""
    return clicks.where("query is not null").select(
        "query", "page", F.lit(1).cast("bigint").alias("clicks")
    )
