"""bronze.returns: records of the topic returns, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.returns",
    *records("returns"),
    window=Last("24 hours", by="ingested_at"),
)
