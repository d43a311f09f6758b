"""Days of tables computed again: the code is right, the data was wrong.

One run is one day (its partition). Start a range of days from *Backfill* in the UI or with
`airflow backfill create`; the tables are in the run's configuration, or in the variable
`penstock_backfill_tables`. A day is replaced in one commit, as net changes; computing it again
changes nothing. Days that are still open, days without data, and tables that have no days because
what they are computed from has no time column, are skipped and say so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import CronPartitionTimetable, dag, get_current_context, task

from penstock.airflow import JVM, forms, known


@dag(
    schedule=CronPartitionTimetable(
        "0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"
    ),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    tags=["change"],
    doc_md=__doc__,
    params={
        "tables": forms.tables(known().tables, "None chosen: those of the variable.", least=0),
        "day": forms.day_or_none("Such as `2026-11-01`; empty: the day of the run."),
        "reason": forms.reason(needed=False),
    },
)
def backfill() -> None:
    @task
    def which() -> list[str]:
        from penstock.airflow.operations import days_of

        return days_of(get_current_context())

    @task(
        pool=JVM,
        retries=2,
        retry_delay=timedelta(seconds=30),
        execution_timeout=timedelta(hours=6),
        map_index_template="{{ table_name }}",
    )
    def recompute(table: str) -> Any:
        from penstock.airflow.operations import recompute

        context = get_current_context()
        context["table_name"] = table
        return recompute(context, table)

    recompute.expand(table=which())


backfill()
