"""Is everything still flowing? Shows heartbeat, state and lag of every stream once a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task


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
    @task
    def heartbeat() -> dict[str, Any]:
        """Fails when the supervisor has not been heard of for 15 seconds."""
        from penstock.airflow import watch_streams

        return watch_streams()

    heartbeat()


stream_watch()
