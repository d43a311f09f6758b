"""gold.card_fraud: which payments are approved, by the rules of their moment."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Enrich, events, table

_NEAR = 50  # kilometres: terminals of one town do not prove a journey


@table(
    "gold.card_fraud",
    inputs={"payments": "gold.card_velocity", "rules": "silver.fraud_rules"},
    kind=Enrich(by=("card_kind",), on="paid_at"),
    keys=("payment_id",),
    freshness="5 seconds",
    owner="payments",
)
def card_fraud(payments: DataFrame) -> DataFrame:
    """One row per payment: approve or deny, and why.

    A payment is denied when its card paid more often in a minute than the rules of its kind of
    card allow (velocity), came further than 50 km faster than they allow (travel), or when it is
    over their amount. The rules are those that held when it was paid; without any it is approved.
    """
    reasons = F.concat_ws(
        ",",
        F.when(F.col("payments") > F.col("rules.max_payments"), "velocity"),
        F.when((F.col("km") > _NEAR) & (F.col("kmh") > F.col("rules.max_kmh")), "travel"),
        F.when(F.col("amount") > F.col("rules.max_amount"), "amount"),
    )
    return payments.select(
        "payment_id",
        "card_id",
        "card_kind",
        "merchant",
        "amount",
        "paid_at",
        "payments",
        "km",
        "kmh",
        F.when(reasons == "", "approve").otherwise("deny").alias("decision"),
        reasons.alias("reasons"),
        F.col("rules.valid_from").alias("rules_from"),
    )


# A decision that a late payment or rule revises is sent again, marked as an update.
DECISIONS_OUT = events(card_fraud, topic="out.card_decisions", corrections=True)
