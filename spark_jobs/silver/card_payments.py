"""silver.card_payments: card payments that keep their contract, each once."""

from pyspark.sql import DataFrame

from penstock.model import Dedupe, Rows, table
from spark_jobs.bronze.card_payments import CARD_PAYMENTS
from spark_jobs.shared import coordinates


@table(
    "silver.card_payments",
    inputs={"card_payments": CARD_PAYMENTS},
    kind=Rows(),
    dedupe=Dedupe(key=("payment_id",), within="1 hour"),
    freshness="5 seconds",
    owner="payments",
)
def card_payments(card_payments: DataFrame) -> DataFrame:
    """One row per payment that asks to be approved; a terminal that asks twice is heard once."""
    return card_payments.select(
        "payment_id",
        "card_id",
        "card_kind",
        "merchant",
        "amount",
        "latitude",
        "longitude",
        "paid_at",
        *coordinates(),
    )
