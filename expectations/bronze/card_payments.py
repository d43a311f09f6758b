"""bronze.card_payments: records of the topic card_payments, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.card_payments",
    *records("card_payments"),
    window=Last("24 hours", by="ingested_at"),
)
