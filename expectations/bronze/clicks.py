"""bronze.clicks: records of the topic clicks, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.clicks",
    *records("clicks"),
    window=Last("24 hours", by="ingested_at"),
)
