"""`penstock up|down|status|doctor` as a person and as a program see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.progress import Progress
from penstock.platform.stack import Event


def penstock(project: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PENSTOCK_HOME": str(home), "PENSTOCK_PORT_OFFSET": "7500"}
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["up", "down", "status", "doctor"])
def test_help_has_examples_and_json(project: Path, tmp_path: Path, command: str) -> None:
    done = penstock(project, tmp_path, command, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"penstock {command}" in done.stdout
    assert "--json" in done.stdout


def test_a_stack_that_never_ran(project: Path, tmp_path: Path) -> None:
    status = penstock(project, tmp_path, "status", "--json")
    assert status.returncode == 7
    assert {s["state"] for s in json.loads(status.stdout)["services"]} == {"stopped"}
    down = penstock(project, tmp_path, "down")
    assert (down.returncode, down.stdout) == (0, "Nothing was running.\n")


def test_mistakes_are_one_sentence_with_the_next_step(project: Path, tmp_path: Path) -> None:
    unknown = penstock(project, tmp_path, "up", "--only", "kafak")
    assert unknown.returncode == 2
    assert "no service named 'kafak'" in unknown.stderr
    assert "Services: postgres, kafka" in unknown.stderr
    needed = penstock(project, tmp_path, "up", "--without", "postgres")
    assert needed.returncode == 2
    assert "needs postgres" in needed.stderr
    assert "Traceback" not in unknown.stderr + needed.stderr


def test_doctor_answers_programs_too(project: Path, tmp_path: Path) -> None:
    done = penstock(project, tmp_path, "doctor", "--json")
    checks = json.loads(done.stdout)
    assert {"python", "java", "jars", "disk", "port"} <= {check["name"] for check in checks}
    assert all(check["remedy"] for check in checks if check["outcome"] == "fail")


def test_the_same_step_again_is_no_news_and_time_stops_at_the_end() -> None:
    progress = Progress()
    assert progress.take(Event("kafka", "waiting"))
    assert progress.take(Event("kafka", "working", "starting"))
    assert not progress.take(Event("kafka", "working", "starting"))
    assert progress.take(Event("kafka", "started"))
    assert progress.seconds() == progress.seconds()


def test_the_live_table_shows_every_service() -> None:
    from rich.console import Console

    progress = Progress()
    progress.take(Event("postgres", "working", "starting"))
    progress.take(Event("kafka", "failed", "it broke"))
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(progress)
    text = console.export_text()
    assert "postgres" in text
    assert "it broke" in text
