"""bronze.sales: records of the topic shop_sales, byte for byte."""

from penstock.quality import Last, suite
from penstock.quality.bronze import records

SUITE = suite(
    "bronze.sales",
    *records("shop_sales"),
    window=Last("24 hours", by="ingested_at"),
)
