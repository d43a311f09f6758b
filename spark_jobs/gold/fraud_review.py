"""gold.fraud_review: decisions against what payments turned out to be."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Group, table


@table(
    "gold.fraud_review",
    inputs={"decisions": "gold.card_fraud", "outcomes": "silver.payment_outcomes"},
    kind=Group(by=("payment_id",)),
    keys=("payment_id",),
    freshness="1 minute",
    owner="payments",
)
def fraud_review(decisions: DataFrame, outcomes: DataFrame) -> DataFrame:
    """One row per payment that was denied or that anything was reported of, with a verdict.

    Of several reports the newest counts. A chargeback and a confirmed fraud say that the payment
    was one: caught or missed; cleared says that it was not: false_alarm or right. A denied payment
    of which nothing is known is open; one that was never decided is unknown.
    """
    told = ("paid_at", "card_id", "amount", "decision", "reasons")
    decided = decisions.select("payment_id", F.struct(*told).alias("decided"))
    reported = outcomes.select(
        "payment_id", F.struct("reported_at", "outcome_id", "outcome").alias("reported")
    )
    both = decided.unionByName(reported, allowMissingColumns=True)
    payment = both.groupBy("payment_id").agg(
        F.max("decided").alias("decided"), F.max("reported").alias("reported")
    )
    denied, outcome = F.col("decided.decision") == "deny", F.col("reported.outcome")
    verdict = (
        F.when(F.col("decided").isNull(), "unknown")
        .when(outcome.isNull(), "open")
        .when(outcome == "cleared", F.when(denied, "false_alarm").otherwise("right"))
        .otherwise(F.when(denied, "caught").otherwise("missed"))
    )
    return payment.where(F.col("reported").isNotNull() | denied).select(
        "payment_id",
        *(F.col(f"decided.{name}").alias(name) for name in told),
        F.col("reported.outcome").alias("outcome"),
        F.col("reported.reported_at").alias("reported_at"),
        verdict.alias("verdict"),
    )
