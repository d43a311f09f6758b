"""What tests of DAGs need: Airflow's database, its configuration, and the runner beside them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.platform.airflow import Airflow
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings
from tests.injections import CORPUS

PROJECT = Path(__file__).resolve().parents[1]
FORMS = {  # what is asked for in full; every other field has a default
    "reprocess": {"tables": ["gold.stock_stats"], "reason": "a test of forms"},
    "rollback": {"table": "gold.stock_stats", "reason": "a test of forms"},
    "retire": {"table": "gold.stock_stats", "reason": "a test of forms"},
    "hold_release": {"table": "gold.stock_stats", "reason": "a test of forms"},
    "quarantine_replay": {"table": "gold.stock_stats", "reason": "a test of forms"},
    "restart_stream": {"stream": "bronze.trades", "reason": "a test of forms"},
    "backfill": {},
    "quality": {},
    "marts": {},
    "export_olap": {},
    "tables": {},
}
FIELDS = {
    "reprocess": ("tables", "start", "partial", "share", "threshold", "tolerances", "expected",
                  "rollup", "reason", "accept_differences", "approval_hours", "watch_minutes",
                  "most_behind", "automatic_rollback"),
    "rollback": ("table", "reason"),
    "retire": ("table", "reason"),
    "hold_release": ("table", "action", "reason"),
    "quarantine_replay": ("table", "rows", "with_tree", "reason"),
    "restart_stream": ("stream", "action", "reason"),
    "backfill": ("tables", "day", "reason"),
    "quality": ("tables",),
    "marts": ("models",),
    "export_olap": ("tables", "targets", "full"),
    "tables": ("tables",),
}  # fmt: skip


def attacks(per_field: int | None = None) -> Iterator[tuple[str, str, Any]]:
    """DAG, field and value: every field with a seeded part of the corpus, or with all of it, then
    each string both bare and in a list."""
    dice = random.Random(6)
    for dag, fields in FIELDS.items():
        for field in fields:
            if per_field is None:
                yield from ((dag, field, value) for text in CORPUS for value in (text, [text]))
                continue
            for number, text in enumerate(dice.sample(CORPUS, per_field)):
                yield dag, field, [text] if number % 2 else text


class Runner:
    """The other process: ask it and wait for what it says."""

    def __init__(self, settings: Settings, project: Path, log: Path) -> None:
        service = Airflow(settings, PlatformSpec.load(settings.project))
        service.configure()
        service.prepare(lambda _: None)
        env = service.environment() | {"PENSTOCK_PROJECT": str(project), "PYTHONPATH": str(PROJECT)}
        with log.open("wb") as said:
            subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env=env, cwd=PROJECT, stdout=said, stderr=said, check=True, timeout=300,
            )  # fmt: skip
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.airflow_runner"],
                env=env, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.log = log
        self.dags: list[str] = self._answer()["dags"]

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the runner ended: {self.log.read_text()[-3000:]}"
        return json.loads(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
