"""A person decides whether candidates go live: asked in the UI, answered there, and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.exceptions import AirflowFailException

__all__ = ["Approval"]


class Approval(ApprovalOperator):
    """Approve leads to one task, reject to the other; no answer in time leads to neither.

    How long to wait is a field of the form, so it is known only when the task runs; the task
    `asked_by` returns it as `question.hours`. A timeout fails the task for good: the candidates
    stay, and starting `reprocess` again goes on with them.
    """

    def __init__(self, *, approved: str, rejected: str, asked_by: str, **more: Any) -> None:
        super().__init__(**more)
        self.approved = approved
        self.rejected = rejected
        self.asked_by = asked_by

    def execute(self, context: Any) -> Any:
        question = context["ti"].xcom_pull(task_ids=self.asked_by)["question"]
        self.response_timeout = timedelta(hours=float(question["hours"]))
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
        if event.get("error_type") == "timeout":
            raise AirflowFailException(
                "nobody answered in time. The candidates are kept: start reprocess again to go on "
                "with them, or abort them with `penstock abort`."
            )
        told = HITLOperator.execute_complete(self, context, event)
        yes = self.APPROVE in told["chosen_options"]
        other = self.rejected if yes else self.approved
        answer = {"approved": yes, "who": _name(told["responded_by_user"])}
        # Skipping ends the task by an exception, so nothing it returned would be kept.
        context["ti"].xcom_push(key="return_value", value=answer)
        self.skip(ti=context["ti"], tasks=[context["task"].dag.get_task(other)])


def _name(user: Any) -> str:
    """The name of who answered, whichever way Airflow gives it."""
    if isinstance(user, Mapping):
        return str(user.get("name") or user.get("id") or "somebody")
    return str(getattr(user, "name", None) or user or "somebody")
