"""Dependencies point one way, and only one module each does the dangerous things."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

# room -> rooms of penstock it must not know
FORBIDDEN = {
    "penstock/model": (
        "runtime",
        "reprocess",
        "platform",
        "cli",
        "airflow",
        "serve",
        "spark.session",
        "settings",
        "testing",
        "clients",
        "marts",
        "metastore",
    ),
    "penstock/runtime": ("reprocess", "platform", "cli", "airflow", "serve", "testing", "marts"),
    "penstock/reprocess": (
        "platform",
        "cli",
        "airflow",
        "serve",
        "spark.session",
        "testing",
        "marts",
    ),
    "penstock/quality": (
        "reprocess",
        "platform",
        "cli",
        "airflow",
        "spark.session",
        "testing",
        "marts",
    ),
    "penstock/lineage": ("platform", "cli", "airflow", "spark.session", "testing", "marts"),
    "penstock/export": (
        "reprocess",
        "platform",
        "cli",
        "airflow",
        "spark.session",
        "testing",
        "runtime.supervise",
        "marts",
    ),
    "penstock/clients": (
        "reprocess",
        "platform",
        "cli",
        "airflow",
        "spark.session",
        "testing",
        "marts",
    ),
    "penstock/publish": (
        "reprocess",
        "platform",
        "cli",
        "airflow",
        "spark.session",
        "testing",
        "marts",
        "runtime.supervise",
        "runtime.registry",
    ),
    "penstock/serve": ("runtime.supervise", "platform", "cli", "airflow", "spark.session", "marts"),
    "penstock/platform": ("cli", "airflow", "spark.session", "marts", "metastore"),
    "penstock/airflow": ("cli", "platform", "spark.session", "marts"),
    "penstock/marts": ("runtime", "reprocess", "cli", "airflow", "testing"),
}

# rooms of the runtime, each knowing only those before it
RUNTIME = (
    "delta",
    "code",
    "decode",
    "fates",
    "ingest",
    "kinds",
    "declared",
    "mend",
    "upkeep",
    "supervise",
)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def sources(folder: str) -> list[Path]:
    return sorted((PROJECT / folder).rglob("*.py"))


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_know_only_what_is_below_them(room):
    for path in sources(room):
        for name in imported(path):
            for other in FORBIDDEN[room]:
                target = f"penstock.{other}"
                assert not f"{name}.".startswith(f"{target}."), f"{path} has {name}"


def test_every_room_of_the_runtime_has_its_place():
    rooms = {path.parent.name for path in (PROJECT / "penstock/runtime").glob("*/__init__.py")}
    assert rooms == set(RUNTIME)


@pytest.mark.parametrize("room", ["", *RUNTIME])
def test_rooms_of_the_runtime_know_only_those_before_them(room):
    later = RUNTIME[RUNTIME.index(room) + 1 :] if room else RUNTIME
    here = PROJECT / "penstock/runtime" / room
    for path in here.glob("*.py"):
        for name in imported(path):
            assert not name.startswith(tuple(f"penstock.runtime.{r}." for r in later)), (
                f"{path} has {name}"
            )


def test_the_model_knows_no_spark_and_does_no_io():
    for path in sources("penstock/model"):
        names = {name.split(".")[0] for name in imported(path)}
        assert not names & {"pyspark", "deltalake", "pg8000", "httpx", "socket", "os"}, path


def test_the_engine_knows_none_of_our_tables():
    for path in sources("penstock"):
        assert not any(name.split(".")[0] == "spark_jobs" for name in imported(path)), path


def test_dags_import_neither_spark_nor_jobs():
    for path in [*sources("dags"), *sources("penstock/airflow")]:
        assert not {n.split(".")[0] for n in imported(path)} & {"pyspark", "spark_jobs"}, path


def test_an_export_starts_no_jvm_and_neither_does_the_publisher():
    commands = [PROJECT / "penstock/cli/export.py", PROJECT / "penstock/cli/publish.py"]
    for path in [*sources("penstock/export"), *sources("penstock/publish"), *commands]:
        assert not {n.split(".")[0] for n in imported(path)} & {"pyspark", "py4j"}, path


def test_suites_are_about_tables_not_about_how_they_came_to_be():
    for path in sources("expectations"):
        names = {name.split(".")[0] for name in imported(path)}
        assert not names & {"pyspark", "spark_jobs"}, path
        ours = {name for name in imported(path) if name.startswith("penstock")}
        assert all(name.startswith("penstock.quality") for name in ours), f"{path}: {ours}"


def test_jobs_use_public_names_only():
    for path in sources("spark_jobs"):
        if "demo" in path.parts:
            continue
        ours = {name for name in imported(path) if name.startswith("penstock")}
        public = ("penstock.model", "penstock.columns")
        assert all(name.startswith(public) for name in ours), f"{path}: {ours}"


def test_only_settings_reads_the_environment():
    for path in sources("penstock"):
        text = path.read_text()
        if path.name != "settings.py":
            assert not re.search(r"os\.environ\.get|os\.getenv", text), path


def test_only_session_builds_a_session():
    for path in sources("penstock"):
        if path.name != "session.py":
            assert "SparkSession.builder" not in path.read_text(), path


def test_no_module_is_a_barn():
    for path in [*sources("penstock"), *sources("spark_jobs"), *sources("dags")]:
        assert len(path.read_text().splitlines()) <= 400, path
