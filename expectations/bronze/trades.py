"""bronze.trades: records of the topic trades, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.trades",
    *records("trades"),
    window=Last("24 hours", by="ingested_at"),
)
