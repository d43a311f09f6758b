"""bronze.app_logs: records of the topic app_logs, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.app_logs",
    *records("app_logs"),
    window=Last("24 hours", by="ingested_at"),
)
