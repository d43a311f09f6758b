"""OpenLineage events of Airflow's tasks, under the names our own events have.

**How it works.** Airflow's provider turns assets into datasets with `dataset_of`: a table is named
by the path of its live table, as in ``penstock/lineage/events.py``. `OurNames` renames jobs on
their way out (``names``): task `gold.sensor_5m` of the DAG `tables` is the job `gold.sensor_5m`.

Airflow imports this module whenever it reads a DAG with an asset in it, so it imports nothing big.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Asset

__all__ = ["dataset_of"]


def dataset_of(asset: Asset, lineage_context: Any) -> Any:
    """An asset as a dataset; tables by their path, exports and marts by their address."""
    from openlineage.client.event_v2 import Dataset

    from penstock.location import dataset
    from penstock.model.names import TableName
    from penstock.runtime.delta.writer import live_path

    parts = urlsplit(asset.uri)
    layer, _, name = parts.path.strip("/").partition("/")
    if parts.netloc == "warehouse" and name:
        table = live_path(Settings.load().warehouse, TableName.parse(f"{layer}.{name}"))
        namespace, called = dataset(table)
        return Dataset(namespace=namespace, name=called)
    return Dataset(namespace="penstock", name=f"{parts.netloc}/{parts.path.strip('/')}")
