"""bronze.searches: records of the topic searches, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.searches",
    *records("searches"),
    window=Last("24 hours", by="ingested_at"),
)
