"""Every table as a task: it takes in everything its inputs have, now.

Streams need no schedule; this is for tables of freshness `batch`, and for whoever wants everything
up to date this moment. It also is what Airflow's asset graph is drawn from: bronze, silver, gold.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import TaskGroup, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow import asset_of, assets_of, forms, known

KNOWN = known()


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    max_active_tasks=2,
    tags=["tables"],
    doc_md=__doc__,
    params={"tables": forms.tables(KNOWN.tables, "None chosen: all of them.", least=0)},
)
def tables() -> None:
    groups = {layer: TaskGroup(layer) for layer in ("silver", "gold")}

    def declare(table: str):
        layer, _, name = table.partition(".")

        @task(
            task_id=name,
            task_group=groups[layer],
            inlets=assets_of(KNOWN.inputs[table]),
            outlets=[asset_of(table)],
            execution_timeout=timedelta(minutes=15),
            trigger_rule="none_failed",
        )
        def run() -> object:
            from penstock.airflow.operations import command

            context = get_current_context()
            if context["params"]["tables"] and table not in context["params"]["tables"]:
                raise AirflowSkipException("not chosen")
            return command(context, table, "run", table, quiet=True)

        return run()

    made = {table: declare(table) for table in KNOWN.tables}
    for table, task_of in made.items():
        for source in KNOWN.inputs[table]:
            if source in made:
                made[source] >> task_of


tables()
