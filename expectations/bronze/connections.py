"""bronze.connections: records of the topic connections, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.connections",
    *records("connections"),
    window=Last("24 hours", by="ingested_at"),
)
