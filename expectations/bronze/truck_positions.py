"""bronze.truck_positions: records of the topic truck_positions, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.truck_positions",
    *records("truck_positions"),
    window=Last("24 hours", by="ingested_at"),
)
