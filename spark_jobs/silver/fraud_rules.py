"""silver.fraud_rules: every version of every fraud rule."""

from pyspark.sql import DataFrame

from penstock.model import table
from spark_jobs.bronze.fraud_rules import FRAUD_RULES
from spark_jobs.captured import captured, history


@table(
    "silver.fraud_rules",
    inputs={"fraud_rules": FRAUD_RULES},
    kind=history("card_kind"),
    freshness="5 seconds",
    owner="payments",
)
def fraud_rules(fraud_rules: DataFrame) -> DataFrame:
    """One row per kind of card and version of the rules for it, valid from its commit on."""
    return fraud_rules.select(
        "card_kind", "max_payments", "max_kmh", "max_amount", "updated_at", *captured()
    )
