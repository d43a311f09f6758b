"""What has to be done now and then: late rows, audits of change capture, compaction, clean-up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task

from penstock.airflow import JVM

# No start date: the first run is at the next time of the schedule. With one in the past Airflow
# makes up for the last time at once, when a fresh stack has better things to do.
COMMON: dict[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["upkeep"],
}
LIGHT: dict[str, Any] = {
    "retries": 2,  # the supervisor may just be starting
    "retry_delay": timedelta(minutes=1),
    "execution_timeout": timedelta(minutes=30),
}


@dag(schedule="*/10 * * * *", **COMMON)
def reconcile_late() -> None:
    """Late rows are made to count: the windows they touch are computed again."""

    @task(**LIGHT)
    def reconcile() -> Any:
        from penstock.airflow.operations import command

        return command(get_current_context(), "reconciled", "reconcile", quiet=True)

    reconcile()


@dag(schedule="7 * * * *", **COMMON)
def audit_cdc() -> None:
    """Every table of change capture is compared with its Postgres table, at one moment."""

    @task(**LIGHT)
    def audit() -> Any:
        from penstock.airflow.operations import audit_all

        return audit_all(get_current_context())

    audit()


@dag(schedule="23 3 * * *", **COMMON)
def maintenance() -> None:
    """Closed intervals are compacted, logs and old files cleaned up, warm revisions expired."""

    @task(pool=JVM, retries=1, execution_timeout=timedelta(hours=6))
    def maintain() -> Any:
        from penstock.airflow.operations import command

        return command(get_current_context(), "maintenance", "maintain")

    maintain()


reconcile_late()
audit_cdc()
maintenance()
