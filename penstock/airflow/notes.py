"""Notes on a run: what a task found, shown where an operator looks first.

A task has no interface of its own for notes, so it goes through the public one, as the user
`penstock` whose password only this machine's tasks can read. A note that cannot be left is no
reason to fail: the same text is in the task's log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from penstock.errors import PenstockError
from penstock.settings import Settings

__all__ = ["USER", "note"]

_log = logging.getLogger(__name__)
USER = "penstock"
_LONGEST = 1000  # Airflow's own limit
_TIMEOUT_SECONDS = 10.0


def note(context: Mapping[str, Any], title: str, text: str) -> None:
    """Log a text, leave it on the task, and add it to the note of the run.

    The newest is on top of a run's note, which holds a thousand characters: what does not fit any
    more goes. What every task said stays on the task. Texts are Markdown, as Airflow shows them.
    """
    for line in (f"--- {title}", *text.splitlines()):
        _log.info("%s", line)
    try:
        _leave(Settings.load(), context, _part(title, text))
    except PenstockError as error:
        _log.info("no note on the run: %s", error.message)


def _leave(settings: Settings, context: Mapping[str, Any], text: str) -> None:
    import httpx

    run, task = context["dag_run"], context["ti"]
    place = f"/api/v2/dags/{quote(run.dag_id, safe='')}/dagRuns/{quote(run.run_id, safe='')}"
    own = f"{place}/taskInstances/{quote(task.task_id, safe='')}/{int(task.map_index)}"
    login = {"username": USER, "password": settings.secret("airflow-tasks")}
    try:
        with httpx.Client(
            base_url=settings.airflow_url, timeout=_TIMEOUT_SECONDS, trust_env=False
        ) as api:
            token = api.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            api.headers["Authorization"] = f"Bearer {token}"
            old = api.get(place).raise_for_status().json().get("note") or ""
            api.patch(place, json={"note": _joined(old, text)}).raise_for_status()
            api.patch(own, json={"note": _joined("", text)}).raise_for_status()
    except (httpx.HTTPError, ValueError, KeyError) as error:
        _log.info("no note on the run: %s", type(error).__name__)


def _part(title: str, text: str) -> str:
    """A run's page shows the first line of its note: it must say more than a title."""
    first, _, rest = text.partition("\n")
    head = f"**{title}** {first.removeprefix('- ')}"
    return f"{head}\n\n{rest}" if rest else head


def _joined(old: str, text: str) -> str:
    """What is new above what was there, within the limit; the oldest parts go first."""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}\n- … (see the log)"
    kept = [text]
    for part in re.split(r"\n\n(?=\*\*)", old) if old else ():
        if len("\n\n".join([*kept, part])) > _LONGEST:
            break
        kept.append(part)
    return "\n\n".join(kept)
