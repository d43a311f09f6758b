"""bronze.readings: records of the topic readings, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.readings",
    *records("readings"),
    window=Last("24 hours", by="ingested_at"),
)
