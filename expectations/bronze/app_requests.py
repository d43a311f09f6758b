"""bronze.app_requests: records of the topic app_requests, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.app_requests",
    *records("app_requests"),
    window=Last("24 hours", by="ingested_at"),
)
