"""bronze.loyalty: records of the topic shop.public.loyalty, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.loyalty",
    *records("shop.public.loyalty"),
    window=Last("24 hours", by="ingested_at"),
)
