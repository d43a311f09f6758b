"""bronze.users: records of the topic shop.public.users, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.users",
    *records("shop.public.users"),
    window=Last("24 hours", by="ingested_at"),
)
