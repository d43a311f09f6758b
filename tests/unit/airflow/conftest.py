"""DAGs read against a manifest of their own, in a process of their own, once for all tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

READER = """
import json, sys, time
import airflow.sdk
from airflow.sdk import dag, task, Asset  # what Airflow itself has loaded when it reads a DAG file
import airflow.providers.standard.operators.python
from airflow.providers.standard.decorators import python as _
Asset(name="warm", uri="penstock://warehouse/gold/warm")  # and its providers
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
sys.path.insert(0, "tests")
seen = {"seconds": {}, "dags": {}, "errors": {}}
from pathlib import Path
for file in sorted(Path("dags").glob("*.py")):
    began = time.perf_counter()
    bag = DagBag(str(file.resolve()), bundle_path=Path("dags").resolve())
    seen["seconds"][file.name] = time.perf_counter() - began
    seen["errors"].update({str(k): v for k, v in bag.import_errors.items()})
    for name, one in bag.dags.items():
        kept = DagSerialization.serialize_dag(one)
        seen["dags"][name] = {
            "schedule": type(one.timetable).__name__,
            "catchup": one.catchup,
            "tags": sorted(one.tags),
            "runs": one.max_active_runs,
            "doc": bool(one.doc_md),
            "params": {k: one.params.get_param(k).schema for k in one.params},
            "defaults": {k: one.params.get_param(k).value for k in one.params},
            "tasks": {
                t.task_id: {
                    "down": sorted(t.downstream_task_ids),
                    "pool": t.pool,
                    "retries": t.retries,
                    "inlets": [a.uri for a in t.inlets if isinstance(a, Asset)],
                    "outlets": [a.uri for a in t.outlets if isinstance(a, Asset)],
                    "type": type(t).__name__,
                    "timeout": t.execution_timeout and t.execution_timeout.total_seconds(),
                }
                for t in one.tasks
            },
            "assets": sorted(a.uri for a in one.timetable.asset_condition.objects)
            if getattr(one.timetable, "asset_condition", None) else [],
        }
seen["heavy"] = sorted({m.split(".")[0] for m in sys.modules} & {"pyspark", "py4j", "spark_jobs"})
print(json.dumps(seen, default=str))
"""

TRADES, USERS, SILVER = {"t": "bronze.trades"}, {"u": "bronze.users"}, {"t": "silver.trades"}
MANIFEST = {
    "tables": [
        {"name": "bronze.trades", "kind": "stream", "layer": "bronze", "topic": "trades"},
        {"name": "bronze.users", "kind": "stream", "layer": "bronze", "topic": "users",
         "contract": {"format": "debezium"}},
        {"name": "silver.trades", "kind": "rows", "revision": "aaa", "inputs": TRADES},
        {"name": "silver.users", "kind": "latest", "revision": "bbb", "inputs": USERS},
        {"name": "gold.stats", "kind": "window", "revision": "ccc", "inputs": SILVER},
        {"name": "gold.unborn", "kind": "rows", "revision": None, "inputs": SILVER},
        {"name": "late.gold_stats", "kind": "late", "of": "gold.stats"},
    ],
    "broken": [],
}  # fmt: skip


def read_dags(project: Path, home: Path, airflow_home: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", READER],
        cwd=project,
        env={
            "PATH": "/usr/bin:/bin",
            "AIRFLOW_HOME": str(airflow_home),
            "PENSTOCK_HOME": str(home),
            "PENSTOCK_PROJECT": str(project),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def read(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything Airflow would know of our DAGs, with a few tables registered."""
    home = tmp_path_factory.mktemp("dags-home")
    (home / "manifest.json").write_text(json.dumps(MANIFEST))
    return read_dags(project, home, tmp_path_factory.mktemp("airflow-home"))
