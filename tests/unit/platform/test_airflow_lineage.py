"""Airflow's OpenLineage provider sends its events where ours go."""

from __future__ import annotations

import json
from configparser import ConfigParser
from dataclasses import replace
from typing import Any

import pytest
from openlineage.client.transport.http import HttpConfig, HttpTransport

from penstock.platform.airflow import Airflow
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings


@pytest.fixture
def transport(settings: Settings, tmp_path, monkeypatch):
    """What Airflow reads of its file, where the project file has this line."""
    monkeypatch.setattr(Settings, "secret", lambda *_: "x")

    def make(line: str) -> dict[str, Any]:
        spec = PlatformSpec.load(settings.project)
        (tmp_path / "pyproject.toml").write_text(f"[tool.penstock]\n{line}\n")
        (tmp_path / "infra").symlink_to(settings.project / "infra")
        service = Airflow(replace(settings, project=tmp_path), spec)
        read = ConfigParser()  # a single % begins a reference, as Airflow has it
        read.read_string(service.files()["airflow.cfg"])
        told = json.loads(read["openlineage"]["transport"])
        assert told["transformer_class"] == "penstock.airflow.names.OurNames"
        inner: dict[str, Any] = told["transport"]
        return inner

    return make


def test_without_an_address_to_the_file_of_our_own(transport, settings):
    file = str(settings.home / "lineage" / "events.jsonl")
    assert transport("") == {"type": "file", "log_file_path": file, "append": True}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000/api/v1/lineage"),
        ("https://me:p%40ss@there/mine?key=1", "https://me:p%40ss@there/mine?key=1"),
    ],
)
def test_with_an_address_to_that(transport, monkeypatch, typed, meant):
    told = transport(f'openlineage_url = "{typed}"')
    assert told.pop("type") == "http"
    sent: list[str] = []
    monkeypatch.setattr("requests.Session.post", lambda _, url, **__: sent.append(url) or _Answer())
    provider = HttpTransport(HttpConfig.from_dict(told))
    provider.emit(_event())
    assert sent == [meant]
    assert provider.config.retry["total"] == 1


class _Answer:
    status_code = 200

    def raise_for_status(self) -> None:
        return

    def close(self) -> None:
        return


def _event() -> Any:
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

    run = Run("3f5e83fa-3480-44ff-99c5-ff943904e5e8")
    at = "2026-01-01T00:00:00Z"
    return RunEvent(eventTime=at, run=run, job=Job("penstock", "x"), eventType=RunState.START)
