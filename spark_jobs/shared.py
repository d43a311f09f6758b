"""Column expressions that several tables share. Pure, like the transforms that use them."""

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["coordinates", "decimal_percentile"]


def coordinates() -> list[Column]:
    """Where in its topic a row came from: for lineage, and to settle ties of time."""
    return [F.col("_partition").alias("partition"), F.col("_offset").alias("offset")]


def decimal_percentile(amount: str, share: str) -> Column:
    """The exact percentile of a decimal(…, 2) column, between two values on the line between them.

    Spark interpolates in doubles. A share of two digits of values of two digits has at most four,
    so rounding there gives back the exact decimal.
    """
    return F.percentile(amount, F.expr(f"{share}D")).cast("decimal(18,4)")
