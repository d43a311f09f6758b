"""Names of jobs in OpenLineage events: a table's task is the table's job."""

from __future__ import annotations

from typing import Any

from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport.transform import EventTransformer

__all__ = ["OurNames"]

TABLES_DAG = "tables"  # the DAG with one task per table


class OurNames(EventTransformer):
    """Jobs that are a table's get the table's name."""

    def transform(self, event: Any) -> Any:
        if isinstance(event, RunEvent):
            event.job.name = event.job.name.removeprefix(f"{TABLES_DAG}.")
        return event
