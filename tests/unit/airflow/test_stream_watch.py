"""The stream_watch DAG: cheap to read, honest about a stale heartbeat."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.airflow.streams import StreamsStale, describe, require_fresh

PROGRAM = """
import json, sys, time
import airflow.sdk
from airflow.sdk import dag, task   # what Airflow itself has loaded when it reads a DAG file
sys.path.insert(0, "dags")
began = time.perf_counter()
import stream_watch
seconds = time.perf_counter() - began
import penstock.airflow
print(json.dumps({
    "seconds": seconds,
    "pyspark": sorted({m.split(".")[0] for m in sys.modules} & {"pyspark", "py4j", "spark_jobs"}),
}))
"""


@dataclass
class Beat:
    age_seconds: float = 1.0
    state: str = "running"
    pid: int = 1
    streams: list[dict[str, Any]] = field(default_factory=list)


def test_the_dag_is_read_quickly_and_never_imports_spark(project: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=project,
        env={"PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["pyspark"] == []
    assert seen["seconds"] < 5.0  # it takes a third of one; a busy machine may take longer


def test_reading_the_heartbeat_needs_no_spark(project: Path) -> None:
    program = (
        "import sys, penstock.airflow, penstock.runtime.registry;"
        "sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project, check=True, timeout=60)


def test_a_missing_or_old_heartbeat_fails_with_what_to_type() -> None:
    for beat, words in ((None, "left no heartbeat"), (Beat(age_seconds=90), "heard of 90 s ago")):
        with pytest.raises(StreamsStale, match=words) as caught:
            require_fresh(beat)
        assert "penstock up" in caught.value.remedy


def test_a_fresh_heartbeat_is_described_stream_by_stream() -> None:
    beat = Beat(streams=[{"stream": "trades", "behind": 3, "state": "running"}])
    assert require_fresh(beat) is beat
    assert list(describe(beat)) == [
        "supervisor: running, heartbeat 1.0 s ago",
        "trades: behind 3, state running",
    ]
