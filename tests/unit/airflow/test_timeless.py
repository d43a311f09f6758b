"""A day of a table that has no days: the DAG's task is skipped, says why, and starts nothing."""

from __future__ import annotations

import json
import types

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow import operations
from penstock.airflow.manifest import Known, known

TIME = {"fields": [{"name": "at", "type": "timestamp"}]}
NONE = {"fields": [{"name": "n", "type": "long"}]}


def test_a_table_is_timeless_where_an_interval_finds_no_time(settings):
    def table(name: str, kind: str, schema: dict | None, *inputs: str) -> dict:
        read = {f"i{n}": one for n, one in enumerate(inputs)}
        return {"name": name, "kind": kind, "schema": schema, "inputs": read, "revision": "r"}

    tables = [
        {"name": "bronze.b", "kind": "stream"},
        table("silver.timed", "latest", TIME, "bronze.b"),
        table("silver.mapped", "rows", NONE, "bronze.b"),
        table("gold.sums", "totals", NONE, "silver.timed"),
        table("gold.of_sums", "group", TIME, "gold.sums"),
        table("gold.of_both", "group", TIME, "silver.timed", "gold.sums"),
        table("gold.windows", "window", NONE, "silver.timed"),
        table("gold.unknown", "rows", None, "bronze.b"),
    ]
    settings.manifest.parent.mkdir(parents=True, exist_ok=True)
    settings.manifest.write_text(json.dumps({"tables": tables}))
    assert known(settings).timeless == ("silver.mapped", "gold.of_sums", "gold.of_both")


def test_a_day_of_it_is_skipped_with_a_note(monkeypatch, settings):
    noted: list[str] = []
    found = Known(settings.project, tables=("gold.g",), timeless=("gold.g",))
    monkeypatch.setattr(operations, "known", lambda: found)
    monkeypatch.setattr(operations, "note", lambda _, *told: noted.extend(told))
    monkeypatch.setattr(operations, "penstock", lambda *_: pytest.fail("a command was run"))
    run = types.SimpleNamespace(partition_key="2026-03-01")
    context = {"dag_run": run, "params": {"day": "", "reason": ""}}
    with pytest.raises(AirflowSkipException, match=r"penstock backfill gold\.g --all"):
        operations.recompute(context, "gold.g")
    assert noted[0] == "gold.g 2026-03-01"
    assert "no time column" in noted[1]
