"""bronze.regions: records of the topic shop.public.regions, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.regions",
    *records("shop.public.regions"),
    window=Last("24 hours", by="ingested_at"),
)
