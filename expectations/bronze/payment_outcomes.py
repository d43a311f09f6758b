"""bronze.payment_outcomes: records of the topic payment_outcomes, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.payment_outcomes",
    *records("payment_outcomes"),
    window=Last("24 hours", by="ingested_at"),
)
