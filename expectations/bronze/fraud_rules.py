"""bronze.fraud_rules: records of the topic shop.public.fraud_rules, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.fraud_rules",
    *records("shop.public.fraud_rules"),
    window=Last("24 hours", by="ingested_at"),
)
