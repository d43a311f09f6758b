"""A new topic and tables over it, by the README alone: its own text is what is run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live import PROJECT, Supervised, wait_for

pytestmark = pytest.mark.platform

README = (PROJECT / "README.md").read_text()
CHAPTER = README.split("## Adding a table")[1].split("\n## ")[0]


def files() -> dict[str, str]:
    """What the README says to write: a path in backticks, then the block with its contents."""
    found = re.findall(r"`(spark_jobs/\S+)`:\n```\w+\n(.*?)```", CHAPTER, re.DOTALL)
    return dict(found)


def script() -> str:
    (found,) = re.findall(r"<<'END'\n(.*?)\nEND", CHAPTER, re.DOTALL)
    return found


@pytest.fixture(scope="module")
def project(test_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("readme") / "project"
    shutil.copytree(test_project, copy)
    shutil.copytree(PROJECT / "infra", copy / "infra")
    return copy


@pytest.fixture(scope="module")
def supervised(stack, project):
    running = Supervised(replace(stack.settings, project=project))
    running.start()
    yield running
    running.kill_all()


@pytest.fixture
def run(supervised, project):
    settings = supervised.settings

    def call(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            check=False,
            env={
                **os.environ,
                "PENSTOCK_HOME": str(settings.home),
                "PENSTOCK_PROJECT": str(project),
                "PENSTOCK_PORT_OFFSET": str(settings.port_offset),
                "PENSTOCK_JARS": str(settings.jars),
            },
            cwd=project,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_one_contract_and_one_module_make_a_table(run, project):
    written = files()
    table = [name for name in written if "/gold/" not in name]
    assert sorted(Path(name).suffix for name in table) == [".avsc", ".py"]
    for name, text in written.items():
        (project / name).write_text(text)
    run("-m", "penstock.cli", "register")
    assert "not delivered: 0" in run("-c", script())

    def rows(table: str) -> list[dict]:
        return json.loads(run("-m", "penstock.cli", "query", f"select * from {table}", "--json"))

    found = wait_for("the row", lambda: rows("silver.parking"))
    assert [(row["garage"], row["places"], row["taken"]) for row in _listed(found)] == [
        ("g-1", 400, 280)
    ]
    hours = wait_for("the hour", lambda: _listed(rows("gold.parking_hours")))
    assert [(row["counts"], row["most_taken"], row["is_final"]) for row in hours] == [
        (1, 280, False)
    ]


def _listed(found) -> list[dict]:
    return found["rows"] if isinstance(found, dict) else found
