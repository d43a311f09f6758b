"""bronze.shipments: records of the topic shipments, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.shipments",
    *records("shipments"),
    window=Last("24 hours", by="ingested_at"),
)
