"""gold.query_top_results: what people who look for something choose most."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.query_top_results",
    inputs={"results": "gold.result_clicks"},
    kind=Group(by=("query",)),
    keys=("query",),
    freshness="20 seconds",
    owner="web",
)
def query_top_results(results: DataFrame) -> DataFrame:
    """One row per query: the page clicked most, and all clicks on its results.

    Of pages with as many clicks the first in the alphabet.
    """
    # The least of (less clicks, page): more clicks first, then the page's name.
    best = F.min(F.struct((-F.col("clicks")).alias("rank"), "page", "clicks"))
    return (
        results.groupBy("query")
        .agg(best.alias("best"), F.sum("clicks").alias("all_clicks"))
        .select("query", "best.page", "best.clicks", "all_clicks")
    )
