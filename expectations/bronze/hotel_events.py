"""bronze.hotel_events: records of the topic hotel_events, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.hotel_events",
    *records("hotel_events"),
    window=Last("24 hours", by="ingested_at"),
)
