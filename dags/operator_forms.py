"""Forms for operators: rollback, retire, hold and release, replay quarantine, restart a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task

from penstock.airflow import forms, known

KNOWN = known()
STREAMS = (*KNOWN.streams, *(f"{name}@{rev}" for name, rev in KNOWN.revisions.items()))
COMMON: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "max_active_runs": 1,
    "tags": ["operate"],
}
LIMIT = timedelta(minutes=30)


@dag(
    **COMMON,
    params={
        "table": forms.table(KNOWN.tables, "A table of the release to take back."),
        "reason": forms.reason("Why; kept in the commit."),
    },
)
def rollback() -> None:
    """Live tables show again what they showed before the last release of a table."""

    @task(execution_timeout=LIMIT)
    def roll_back() -> Any:
        from penstock.airflow.operations import rolled_back

        return rolled_back(get_current_context())

    roll_back()


@dag(
    **COMMON,
    params={
        "table": forms.table(KNOWN.tables, "Whose warm revision is not needed any more."),
        "reason": forms.reason("Why; kept with the run."),
    },
)
def retire() -> None:
    """Stop feeding a table's warm revision. There is no way back to it then."""

    @task(execution_timeout=LIMIT)
    def stop_feeding() -> Any:
        from penstock.airflow.operations import one_table

        return one_table(get_current_context(), "retired", "retire")

    stop_feeding()


@dag(
    **COMMON,
    params={
        "table": forms.table(KNOWN.tables, "Its revision goes on either way."),
        "action": forms.choice("hold", ("hold", "release"), "Action", "Stand still, or go on."),
        "reason": forms.reason("Why; shown to whoever asks."),
    },
)
def hold_release() -> None:
    """A live table stands still for its readers, or shows everything that came meanwhile."""

    @task(execution_timeout=LIMIT)
    def act() -> Any:
        from penstock.airflow.operations import held_or_released

        return held_or_released(get_current_context())

    act()


@dag(
    **COMMON,
    params={
        "table": forms.table(KNOWN.tables, "Whose quarantine to try again."),
        "rows": forms.row_ids(),
        "with_tree": forms.flag(False, "Edited code", "By the working tree's code and contract."),
        "reason": forms.reason("Why; kept with the run."),
    },
)
def quarantine_replay() -> None:
    """Rows that were set apart are tried again; what is good now moves into the table, once."""

    @task(execution_timeout=LIMIT)
    def replay() -> Any:
        from penstock.airflow.operations import replayed

        return replayed(get_current_context())

    replay()


@dag(
    **COMMON,
    params={
        "stream": forms.table(STREAMS, "A topic's or a table's.", title="Stream"),
        "action": forms.choice("restart", ("restart", "stop", "start"), "Action", "What to do."),
        "reason": forms.reason("Why; kept with the run."),
    },
)
def restart_stream() -> None:
    """The supervisor stops, starts or restarts one stream within a second or two."""

    @task(execution_timeout=LIMIT)
    def ask() -> Any:
        from penstock.airflow.operations import asked_of_stream

        return asked_of_stream(get_current_context())

    ask()


rollback()
retire()
hold_release()
quarantine_replay()
restart_stream()
