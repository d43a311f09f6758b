"""Airflow: scheduler, DAG processor, triggerer and web server on Postgres, loopback only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.lineage.address import address, events_file
from penstock.platform.files import private_folder, write_private
from penstock.platform.http import ask
from penstock.platform.service import Report, Service

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Airflow"]

_COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class Airflow(Service):
    """Its home is its folder in ``etc``; DAGs come from the project, logs go to the stack's."""

    name = "airflow"
    niceness = 10  # a task takes seconds of CPU to begin; streams must not wait for it

    @property
    def _passwords(self) -> Path:
        """Not among the configured files: Airflow opens it for writing, and may rewrite it."""
        return self.settings.secrets_folder / "airflow-passwords.json"

    def files(self) -> Mapping[str, str]:
        secret = self.settings.secret
        config = self.render(
            "airflow/airflow.cfg",
            home=self.etc,
            dags=self.settings.project / "dags",
            logs=self.settings.logs / "airflow",
            lineage=_escaped(_lineage(self.settings)),
            port=self.port(),
            postgres_port=self.settings.port("postgres"),
            password=secret("postgres-airflow"),
            passwords_file=self._passwords,
            fernet_key=secret("airflow-fernet"),
            secret_key=secret("airflow-secret"),
            jwt_secret=secret("airflow-jwt"),
        )
        return {"airflow.cfg": config}

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "penstock.platform.airflow_main"]

    def environment(self) -> dict[str, str]:
        return self.settings.environment(
            AIRFLOW_HOME=str(self.etc),
            AIRFLOW_CONFIG=str(self.etc / "airflow.cfg"),
            NO_COLOR="1",
        )

    def prepare(self, report: Report) -> None:
        private_folder(self.settings.logs / "airflow")
        (self.settings.home / "lineage").mkdir(parents=True, exist_ok=True)
        users = {"admin": "airflow-admin", "penstock": "airflow-tasks"}
        passwords = {user: self.settings.secret(name) for user, name in users.items()}
        write_private(self._passwords, json.dumps(passwords))

    def ready(self) -> bool:
        """All components are healthy, and tasks can be run.

        The server builds the interface for tasks when it is first asked for, and answers nobody
        else for those seconds; so it is asked here, not by the first task.
        """
        health = ask(f"{self.settings.airflow_url}/api/v2/monitor/health")
        if not health.ok:
            return False
        states = [(health.body.get(name) or {}).get("status") for name in _COMPONENTS]
        if any(state != "healthy" for state in states):
            return False
        return ask(f"{self.settings.airflow_url}/execution/health").ok


def _lineage(settings: Settings) -> dict[str, Any]:
    """Where Airflow's OpenLineage provider sends events: where our own go."""
    url = address(settings)
    if url is None:
        return {"type": "file", "log_file_path": str(events_file(settings)), "append": True}
    return {
        "type": "http",
        "url": url,
        "endpoint": "",  # is in the address
        # A task waits for its events: a server that is away must not cost it the provider's own
        # five tries, each after a longer pause.
        "timeout": 3.0,
        "retry": {"total": 1},
    }


def _escaped(value: dict[str, Any]) -> str:
    """As JSON in Airflow's file, where a single % begins a reference."""
    return json.dumps(value).replace("%", "%%")
