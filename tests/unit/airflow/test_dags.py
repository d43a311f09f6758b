"""Every DAG is read, cheap, and shaped as its page says."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.unit.airflow.conftest import read_dags

EXPECTED = {
    "audit_cdc", "backfill", "export_olap", "hold_release", "maintenance", "marts", "quality",
    "quarantine_replay", "reconcile_late", "reprocess", "restart_stream", "retire", "rollback",
    "stream_watch", "tables",
}  # fmt: skip
HEAVY = {  # whatever starts a JVM waits for the one slot
    "reprocess": {"plan", "stage", "quality_gate", "exports", "marts", "verdict"},
    "backfill": {"recompute"},
    "maintenance": {"maintain"},
    "quality": {"silver", "gold"},
    "marts": {"run"},
    "export_olap": {"gate", "duckdb", "clickhouse", "parquet"},
}


def test_all_are_read_without_an_error(read: dict[str, Any]) -> None:
    assert read["errors"] == {}
    assert set(read["dags"]) == EXPECTED
    assert all(dag["tasks"] for dag in read["dags"].values())
    assert all(dag["doc"] for dag in read["dags"].values())


def test_reading_them_imports_no_spark_and_is_cheap(read: dict[str, Any]) -> None:
    assert read["heavy"] == []
    assert max(read["seconds"].values()) < 5.0, read["seconds"]  # far above what it takes: 0.3 s


def test_without_a_stack_they_are_read_too(project: Path, tmp_path: Path) -> None:
    seen = read_dags(project, tmp_path / "none", tmp_path / "airflow")
    assert seen["errors"] == {}
    assert set(seen["dags"]) >= EXPECTED - {"tables"}
    assert seen["dags"]["marts"]["assets"] == ["penstock://warehouse/gold"]


def test_they_import_only_the_sdk_and_ours(project: Path) -> None:
    for path in (project / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                if name.startswith("airflow"):
                    assert name.startswith(("airflow.sdk", "airflow.providers.")), (path, name)


def test_one_slot_for_whatever_starts_a_jvm(read: dict[str, Any]) -> None:
    for name, dag in read["dags"].items():
        heavy = {t for t, task in dag["tasks"].items() if task["pool"] == "jvm"}
        assert heavy == HEAVY.get(name, set()), name
        for task in heavy:
            assert dag["tasks"][task]["timeout"], (name, task)


def test_reprocess_asks_before_it_promotes(read: dict[str, Any]) -> None:
    tasks = read["dags"]["reprocess"]["tasks"]
    down = {name: set(task["down"]) for name, task in tasks.items()}
    assert down["plan"] == {"stage"}
    assert "quality_gate" in down["stage"]
    assert down["quality_gate"] == {"compare"}
    assert down["compare"] == {"approval"}
    assert down["approval"] == {"promote", "abort"}
    assert {"exports", "marts", "watch"} <= down["promote"]
    assert down["watch"] == {"verdict"}
    assert down["abort"] == set()
    assert tasks["approval"]["retries"] >= 1
    assert read["dags"]["reprocess"]["runs"] == 1
    upstream_of_promote = {name for name, to in down.items() if "promote" in to}
    assert "approval" in upstream_of_promote


def test_schedules(read: dict[str, Any]) -> None:
    by_name = {name: dag["schedule"] for name, dag in read["dags"].items()}
    assert by_name["backfill"] == "CronPartitionTimetable"
    assert not read["dags"]["backfill"]["catchup"]
    for name in ("marts", "quality", "export_olap"):
        assert "Asset" in by_name[name], name
    for name in ("reprocess", "rollback", "retire", "hold_release", "quarantine_replay",
                 "restart_stream", "tables"):  # fmt: skip
        assert by_name[name] == "NullTimetable", name


def test_assets_join_bronze_to_exports(read: dict[str, Any]) -> None:
    def uri(table: str) -> str:
        return "penstock://warehouse/" + table.replace(".", "/")

    edges: set[tuple[str, str]] = set()
    for dag in read["dags"].values():
        for task in dag["tasks"].values():
            edges |= {(i, o) for i in task["inlets"] for o in task["outlets"]}
    assert (uri("bronze.trades"), uri("silver.trades")) in edges
    assert (uri("silver.trades"), uri("gold.stats")) in edges
    assert (uri("gold.stats"), "penstock://exports/duckdb") in edges
    assert any(a == uri("gold.stats") and b.startswith("penstock://marts/") for a, b in edges)
    assert not any("unborn" in a or "unborn" in b for a, b in edges)
    assert read["dags"]["marts"]["assets"] == ["penstock://warehouse/gold", uri("gold.stats")]


def test_what_may_be_left_empty_is_not_required_by_the_page(read: dict[str, Any]) -> None:
    """Airflow's form does not go while a text that is not nullable is empty."""
    for name, dag in read["dags"].items():
        assert "" not in dag["defaults"].values(), name
        for field, value in dag["defaults"].items():
            if value == []:
                assert "null" in dag["params"][field]["type"], (name, field)


def test_names_come_from_the_manifest(read: dict[str, Any]) -> None:
    names = ["silver.trades", "silver.users", "gold.stats"]
    for name in ("reprocess", "backfill", "export_olap", "quality", "tables"):
        assert read["dags"][name]["params"]["tables"]["items"]["enum"] == names
    for name in ("rollback", "retire", "hold_release", "quarantine_replay"):
        assert read["dags"][name]["params"]["table"]["enum"] == names
    streams = read["dags"]["restart_stream"]["params"]["stream"]["enum"]
    assert streams == ["bronze.trades", "bronze.users", "silver.trades@aaa", "silver.users@bbb",
                       "gold.stats@ccc"]  # fmt: skip


@pytest.mark.parametrize("dag", sorted(EXPECTED))
def test_every_field_has_a_schema_that_refuses_something(read: dict[str, Any], dag: str) -> None:
    for name, schema in read["dags"][dag]["params"].items():
        bounded = {"enum", "pattern", "items", "minimum"} & set(schema)
        assert bounded or schema["type"] == "boolean", (dag, name, schema)
