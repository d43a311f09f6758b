"""What tables of captured changes have in common: their history, and what tells versions apart."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.model import History

__all__ = ["captured", "history"]


def history(*by: str) -> History:
    """Versions of a key, in the order of their commits.

    A change is as old as its commit, not as the place in the log where it was written: a
    transaction may write before a snapshot and commit after it.
    """
    return History(
        by=by,
        order=("committed_at", "lsn", "offset"),
        since="committed_at",
        deleted="deleted",
        truncated="truncated",
        snapshot="snapshot",
    )


def captured() -> list[Column]:
    """The columns that ``history`` reads; the flags among them are not kept."""
    names = ("lsn", "offset", "committed_at", "deleted", "truncated", "snapshot")
    return [F.col(f"_{name}").alias(name) for name in names]
