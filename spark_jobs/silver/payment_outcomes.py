"""silver.payment_outcomes: what payments turned out to be, each word once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.payment_outcomes import PAYMENT_OUTCOMES
from spark_jobs.shared import coordinates


@table(
    "silver.payment_outcomes",
    inputs={"payment_outcomes": PAYMENT_OUTCOMES},
    kind=Rows(),
    dedupe=Dedupe(key=("outcome_id",), within="1 hour"),
    freshness="20 seconds",
    owner="payments",
)
def payment_outcomes(payment_outcomes: DataFrame) -> DataFrame:
    """One row per word about what a payment turned out to be."""
    return payment_outcomes.select(
        "outcome_id", "payment_id", "outcome", "reported_at", *coordinates()
    )
