"""silver.users: every version of every user of the shop."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import History, table
from spark_jobs.bronze.users import USERS


@table(
    "silver.users",
    inputs={"users": USERS},
    kind=History(
        by=("user_id",),
        # A change is as old as its commit, not as the place in the log where it was written: a
        # transaction may write before a snapshot and commit after it.
        order=("committed_at", "lsn", "offset"),
        since="committed_at",
        deleted="deleted",
        truncated="truncated",
        snapshot="snapshot",
    ),
    freshness="10 seconds",
    owner="shop",
)
def users(users: DataFrame) -> DataFrame:
    """One row per user and version, valid from when Postgres committed it until the next one."""
    return users.select(
        "user_id",
        "name",
        "email",
        "country",
        "tier",
        "updated_at",
        "zip_code",
        F.col("_lsn").alias("lsn"),
        F.col("_offset").alias("offset"),
        F.col("_committed_at").alias("committed_at"),
        F.col("_deleted").alias("deleted"),
        F.col("_truncated").alias("truncated"),
        F.col("_snapshot").alias("snapshot"),
    )
