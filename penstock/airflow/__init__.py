"""What DAGs are built from: thin helpers that never import pyspark.

A DAG file is read every few seconds by Airflow; everything it needs at that moment must be cheap:
the manifest, forms and assets. Work is done when a task runs, and anything that may need a JVM runs
as a `penstock` command in a process group of its own (``command``).
"""

from penstock.airflow.assets import (
    asset_of,
    assets_of,
    export_asset,
    layer_asset,
    mart_assets,
    mart_names,
    quality_asset,
)
from penstock.airflow.manifest import Known, known
from penstock.airflow.streams import StreamsStale, watch_streams

__all__ = [
    "JVM",
    "Known",
    "StreamsStale",
    "asset_of",
    "assets_of",
    "export_asset",
    "known",
    "layer_asset",
    "mart_assets",
    "mart_names",
    "quality_asset",
    "watch_streams",
]

JVM = "jvm"  # the pool with one slot for whatever starts a JVM; made when Airflow starts
