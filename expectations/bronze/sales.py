"""bronze.sales: records of the topic sales, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.sales",
    *records("sales"),
    window=Last("24 hours", by="ingested_at"),
)
