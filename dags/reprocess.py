"""A changed transformation goes live: planned, built beside live, checked, approved, swapped.

Plan, stage, quality gate and compare run by themselves; then somebody looks at the report and
approves or rejects under *Required actions*. Reject gives the candidates up; no answer in time
keeps them, and starting again goes on with them. After the swap exports and marts follow, and the
tables are watched for a while.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import PokeReturnValue, dag, get_current_context, task

from penstock.airflow import JVM, forms, known
from penstock.airflow.approval import Approval

# What is asked of everybody comes first; the rest has defaults and is folded away.
BUILD, COMPARE, AFTER = ({"section": s} for s in ("Build", "Comparison", "Approval and after"))
FORM = {
    "tables": forms.tables(known().tables, "What changed. All that reads it goes along."),
    "reason": forms.reason("Why it changes; kept in the commit."),
    "start": forms.moment(
        "BEGINNING",
        "`BEGINNING`, a moment (`2026-11-01T00:00Z`) or a length (`7 days`).",
        "Start",
        **BUILD,
    ),
    "partial": forms.flag(
        False, "Partial", "Accept that less history is held than asked for.", **BUILD
    ),
    "share": forms.number(
        1.0, 0.01, 1.0, "Share", "How much of the time the build may work.", **BUILD
    ),
    "threshold": forms.number(
        0.0, 0.0, 1.0, "Threshold", "The share of rows that may differ unexpectedly.", **COMPARE
    ),
    "tolerances": forms.tolerance_list(**COMPARE),
    "expected": forms.condition_list(**COMPARE),
    "rollup": forms.rollup(**COMPARE),
    "accept_differences": forms.reason(
        "Go on although more rows differ than may, or although the history is partial: why?",
        title="Accept differences",
        needed=False,
        **COMPARE,
    ),
    "approval_hours": forms.number(
        24.0, 0.01, 168.0, "Approval within", "Hours until an unanswered question is dropped.",
        **AFTER,
    ),
    "watch_minutes": forms.whole(
        10, 0, 240, "Watch", "Minutes to watch after the swap.", **AFTER
    ),
    "most_behind": forms.whole(
        100, 1, 100_000, "Allowed lag", "Commits a table may be behind while it is watched.",
        **AFTER,
    ),
    "automatic_rollback": forms.flag(
        False, "Automatic rollback", "Go back if the watch breaks.", **AFTER
    ),
}  # fmt: skip
HEAVY: dict[str, Any] = {"pool": JVM, "retries": 2, "retry_delay": timedelta(seconds=30)}


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    tags=["change"],
    doc_md=__doc__,
    params=FORM,
    render_template_as_native_obj=False,
)
def reprocess() -> None:
    @task(**HEAVY, execution_timeout=timedelta(minutes=15))
    def plan() -> Any:
        from penstock.airflow import releasing

        return releasing.plan(get_current_context())

    @task(**HEAVY, execution_timeout=timedelta(hours=24))
    def stage() -> Any:
        from penstock.airflow import releasing

        return releasing.stage(get_current_context())

    @task(**HEAVY, execution_timeout=timedelta(hours=1))
    def quality_gate(staged: Any) -> Any:
        from penstock.airflow import releasing

        return releasing.gate(get_current_context(), staged)

    @task(retries=1, execution_timeout=timedelta(hours=2))
    def compare(staged: Any) -> Any:
        from penstock.airflow import releasing

        return releasing.compare(get_current_context(), staged)

    approval = Approval(
        task_id="approval",
        subject="{{ ti.xcom_pull(task_ids='compare')['question']['subject'] }}",
        body="{{ ti.xcom_pull(task_ids='compare')['question']['body'] }}",
        approved="promote",
        rejected="abort",
        asked_by="compare",
        retries=1,  # an answer within seconds of the question has been seen to fail the task
        retry_delay=timedelta(seconds=5),
    )

    @task(retries=2, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(hours=1))
    def promote(staged: Any, answer: Any) -> Any:
        from penstock.airflow import releasing

        return releasing.promote(get_current_context(), staged, answer)

    @task(retries=2, retry_delay=timedelta(seconds=10), execution_timeout=timedelta(minutes=30))
    def abort(staged: Any, answer: Any) -> Any:
        from penstock.airflow import releasing

        return releasing.abort(get_current_context(), staged, answer)

    @task(**HEAVY, execution_timeout=timedelta(hours=2))
    def exports() -> Any:
        from penstock.airflow.operations import exported

        return exported(get_current_context())

    @task(**HEAVY, execution_timeout=timedelta(hours=2))
    def marts(promoted: Any) -> Any:
        from penstock.airflow.operations import marts_over

        return marts_over(get_current_context(), list(promoted["tables"]))

    @task.sensor(poke_interval=30, mode="reschedule", timeout=5 * 3600)
    def watch(promoted: Any) -> PokeReturnValue:
        from penstock.airflow import releasing

        found = releasing.watched(get_current_context(), promoted)
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    @task(pool=JVM, execution_timeout=timedelta(hours=1))
    def verdict(staged: Any, promoted: Any, found: Any) -> Any:
        from penstock.airflow import releasing

        return releasing.verdict(get_current_context(), staged, promoted, found)

    built = stage()
    compared = compare(built)
    plan() >> built >> quality_gate(built) >> compared >> approval
    live = promote(built, approval.output)
    abort(built, approval.output)
    live >> exports()
    marts(live)
    verdict(built, live, watch(live))


reprocess()
