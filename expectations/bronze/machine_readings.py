"""bronze.machine_readings: records of the topic machine_readings, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.machine_readings",
    *records("machine_readings"),
    window=Last("24 hours", by="ingested_at"),
)
