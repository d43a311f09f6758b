"""Is everything still flowing? Once a minute: heartbeat, lag, watermarks, quarantine, outcomes.

What wants looking at is told once, through `penstock.airflow.notify`; a stream that has work and
does none is restarted by the supervisor. Tables that moved are reported as asset events, together
and every quarter of an hour: marts, exports and quality follow these.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import AssetAlias, dag, task

MOVED = AssetAlias("tables that moved")


@dag(
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=2),
    tags=["streams"],
    doc_md=__doc__,
)
def stream_watch() -> None:
    @task(outlets=[MOVED])
    def look(*, outlet_events: Any) -> dict[str, Any]:
        """Fails when the supervisor has not been heard of for 15 seconds."""
        from penstock.airflow import asset_of, layer_asset
        from penstock.airflow.watch import watch

        found = watch()
        for layer in sorted({table.partition(".")[0] for table in found.moved}):
            outlet_events[MOVED].add(layer_asset(layer))
        for table, version in found.moved.items():
            outlet_events[MOVED].add(asset_of(table), extra={"version": version})
        return {"problems": found.every, "restarted": found.restarts, "moved": found.moved}

    look()


stream_watch()
