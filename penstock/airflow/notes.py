"""Notes on a run: what a task found, shown where an operator looks first.

A task has no interface of its own for notes, so it goes through the public one, as the user
`penstock` whose password only this machine's tasks can read. A note that cannot be left is no
reason to fail: the same text is in the task's log.
"""

from __future__ import annotations

import logging
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
    """Log a text and add it to the note of the run; the newest words stay when it gets too long."""
    for line in (f"--- {title}", *text.splitlines()):
        _log.info("%s", line)
    run = context["dag_run"]
    try:
        _add(Settings.load(), run.dag_id, run.run_id, f"**{title}**\n{text}")
    except PenstockError as error:
        _log.info("no note on the run: %s", error.message)


def _add(settings: Settings, dag_id: str, run_id: str, text: str) -> None:
    import httpx

    place = f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns/{quote(run_id, safe='')}"
    login = {"username": USER, "password": settings.secret("airflow-tasks")}
    try:
        with httpx.Client(
            base_url=settings.airflow_url, timeout=_TIMEOUT_SECONDS, trust_env=False
        ) as api:
            token = api.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            api.headers["Authorization"] = f"Bearer {token}"
            old = api.get(place).raise_for_status().json().get("note") or ""
            api.patch(place, json={"note": _joined(old, text)}).raise_for_status()
    except (httpx.HTTPError, ValueError, KeyError) as error:
        _log.info("no note on the run: %s", type(error).__name__)


def _joined(old: str, text: str) -> str:
    """What was there and what is new, within the limit."""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}\n... (see the log)"
    room = _LONGEST - len(text) - 2
    kept = old if len(old) <= room else old[-room:].partition("\n")[2] if room > 0 else ""
    return f"{kept}\n\n{text}" if kept else text
