"""bronze.returns: records of the topic shop_returns, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.returns",
    *records("shop_returns"),
    window=Last("24 hours", by="ingested_at"),
)
