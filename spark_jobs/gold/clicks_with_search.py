"""gold.clicks_with_search: page views with the search that led to them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import interval_join, table


@table(
    "gold.clicks_with_search",
    inputs={"clicks": "silver.clicks", "searches": "silver.searches"},
    kind=interval_join(
        by=("user_id",),
        on="clicked_at",
        right_on="searched_at",
        before="1 second",
        lateness="5 seconds",
        updatable_for="1 minute",  # a click or a search that comes late still counts at once
    ),
    keys=("click_id",),
    freshness="20 seconds",
    owner="web",
)
def clicks_with_search(clicks: DataFrame) -> DataFrame:
    """One row per click, with the same user's newest search in the second before it, if any.

    A search exactly one second before the click counts, one after it does not. Of two searches at
    the same moment the one with the greater id is taken. A visitor without an id has no search.
    """
    newest = F.struct("searches.searched_at", "searches.search_id")
    # One row per pair comes in, and all pairs of a click together.
    return (
        clicks.groupBy("click_id", "user_id", "page", "clicked_at", "partition", "offset")
        .agg(F.max_by("searches", newest).alias("search"))
        .select(
            "click_id",
            "user_id",
            "page",
            "clicked_at",
            F.col("search.search_id").alias("search_id"),
            F.col("search.query").alias("query"),
            F.col("search.searched_at").alias("searched_at"),
        )
    )
