"""What operators read on a run's page."""

from __future__ import annotations

import re
from typing import Any

from penstock.airflow import tell
from penstock.airflow.notes import _joined, _part
from penstock.settings import Settings


def result(name: str, *, success: bool = False, **more: Any) -> dict[str, Any]:
    return {"check_name": name, "success": success, "severity": "blocking", "why": "", "error": "",
            "element_count": 1200, "unexpected_count": 7, **more}  # fmt: skip


def test_a_quality_failure_says_which_check_how_many_rows_and_where_to_look(
    settings: Settings,
) -> None:
    table = {
        "table": "gold.stats", "version": 17, "failures": ["trades between"],
        "held": ["gold.stats"], "released": [],
        "results": [
            result("trades between", why="windows are not empty"),
            result("a warning", severity="warning"),
            result("fine", success=True),
        ],
    }  # fmt: skip
    good = {"table": "gold.other", "failures": [], "results": [], "released": ["gold.other"]}
    site = str(settings.sites / "quality" / "index.html")
    told = tell.quality({"run": "r1", "site": site, "tables": [table, good]}, settings)
    base = f"{settings.airflow_url}/penstock/sites/quality"
    assert told.splitlines() == [
        f"- gold.stats version 17: FAILED ([which rows]({base}/gold.stats/r1.html))",
        "  - trades between: 7 of 1,200 rows (windows are not empty)",
        "  - held: gold.stats; its stream goes on",
        "- gold.other passes again and goes on",
        "- passed: gold.other",
        f"- [Data Docs]({base}/index.html)",
    ]


def test_a_check_that_could_not_be_made_or_counts_nothing_is_told_too(settings: Settings) -> None:
    checks = [result("a", error="no such column"),
              result("b", unexpected_count=None, observed="0.7")]  # fmt: skip
    table = {"table": "gold.stats", "version": 1, "failures": ["a", "b"], "results": checks}
    told = tell.quality({"run": "r1", "site": "", "tables": [table]}, settings)
    assert "a: could not be made" in told
    assert "b: saw 0.7" in told


def test_marts_tell_what_was_not_built(settings: Settings) -> None:
    told = {
        "models": [
            {"name": "marts.a", "kind": "table", "status": "success", "rows": 1000},
            {"name": "marts.v", "kind": "view", "status": "success", "rows": None},
            {"name": "marts.b", "kind": "table", "status": "error", "rows": None},
            {"name": "marts.c", "kind": "table", "status": "skipped", "rows": None},
        ],
        "tests": [
            {"name": "unique_a", "status": "fail", "failures": 3},
            {"name": "old_a", "status": "warn", "failures": 1},
        ],
        "tests_passed": 40, "seconds": 99.6, "empty": ["gold.x"],
        "docs": str(settings.sites / "dbt" / "index.html"),
    }  # fmt: skip
    assert tell.marts_failed(told) == "marts.b (error), marts.c (skipped), unique_a (3 rows)"
    assert tell.marts(told, settings).splitlines() == [
        "- 1 built, 1,000 rows; 40 tests passed; 100 s",
        "- FAILED: marts.b (error), marts.c (skipped), unique_a (3 rows)",
        "- no data yet in gold.x",
        f"- [dbt docs]({settings.airflow_url}/penstock/sites/dbt/index.html)",
    ]


def test_exports_tell_rows_and_what_was_left_out() -> None:
    tables = [
        {"table": "gold.a", "mode": "full", "rows": 1000, "rows_written": 1000},
        {"table": "gold.b", "mode": "full", "rows": 5, "rows_written": 5},
        {"table": "gold.c", "mode": "blocked", "rows": None, "reason": "held by quality: x"},
    ]
    told = tell.exported({"targets": [{"target": "duckdb", "seconds": 1.5, "tables": tables}]})
    assert told.splitlines() == [
        "- duckdb: 3 tables, 1.5 s",
        "  - full: gold.a 1,000 rows (1,000 written), gold.b 5 rows (5 written)",
        "  - blocked: gold.c (held by quality: x)",
    ]


def test_the_first_line_of_a_note_says_something() -> None:
    assert _part("plan", "- a: x → y\n  - reads b\n- c") == "**plan** a: x → y\n\n  - reads b\n- c"
    assert _part("plan", "nothing to do") == "**plan** nothing to do"


def test_the_newest_is_on_top_and_the_oldest_goes_when_a_note_gets_too_long() -> None:
    note = ""
    for name in ("one", "two", "three", "four"):
        note = _joined(note, f"**{name}**\n\n- {'x' * 280}")
    assert len(note) <= 1000
    assert re.findall(r"\*\*(\w+)\*\*", note) == ["four", "three", "two"]
    assert len(_joined("", "z" * 5000)) <= 1000
