"""An operator takes a change live without a shell, in Airflow as it is, and looks around after."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.conftest import World
    from tests.browser.operator import Operator

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
]

TABLE = "gold.sensor_5m"
MODULE = "spark_jobs/gold/sensor_5m.py"
P95 = 'F.percentile("value", F.lit(0.95)).alias("p95_value"),'
P99 = 'F.percentile("value", F.lit(0.99)).alias("p99_value"),'
GROUPED = "return readings.groupBy("
MEASURED = 'return readings.where(~F.col("calibration")).groupBy('
REASON = "calibration is no measurement"
EXPECTED = "new.readings < old.readings => calibration is left out"


def tasks(world: World, run: str) -> dict[str, Any]:
    found = world.ask(f"/api/v2/dags/reprocess/dagRuns/{quote(run)}/taskInstances")
    return {task["task_id"]: task["state"] for task in found["task_instances"]}


def reached(world: World, run: str, task: str, state: str, seconds: float = 900) -> None:
    """Wait until a task is in a state; a run with a failed task is not waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        states = tasks(world, run)
        if states[task] == state:
            return
        assert "failed" not in states.values(), states
        time.sleep(2)
    raise AssertionError(f"{task} is not {state} after {seconds} s: {tasks(world, run)}")


@pytest.fixture(scope="module")
def run(world: World, operator: Operator) -> str:
    return started(world, operator)


def started(world: World, operator: Operator) -> str:
    """A run that the operator started from the form, after somebody edited the table."""
    world.edit(MODULE, P95, f"{P95}\n        {P99}")
    world.edit(MODULE, GROUPED, MEASURED)
    operator.open("/dags/reprocess")
    operator.log_in("admin", world.settings.secret("airflow-admin"))
    form = operator.open_form("reprocess")
    operator.choose(form, TABLE)
    operator.fill(form, "reason", REASON)
    operator.picture("form")
    operator.unfold(form, "Comparison")
    operator.fill(form, "threshold", "1")
    operator.fill(form, "expected", EXPECTED)
    operator.unfold(form, "Approval and after")
    operator.fill(form, "watch_minutes", "0")
    operator.fill(form, "most_behind", "10000")
    return operator.send(form)


def test_the_plan_is_a_note_on_the_run(world: World, operator: Operator, run: str) -> None:
    reached(world, run, "plan", "success")
    operator.open(f"/dags/reprocess/runs/{quote(run)}")
    operator.read_note()
    note = operator.page.get_by_role("dialog")
    note.get_by_text(re.compile(rf"{TABLE}: \w+ → \w+")).first.wait_for()
    assert note.get_by_text("reads silver.readings").count()
    operator.picture("plan")


def test_the_report_is_read_and_the_change_approved(
    world: World, operator: Operator, run: str
) -> None:
    page = operator.page
    reached(world, run, "approval", "awaiting_input")
    operator.open("/required_actions")
    page.get_by_text(f"Promote {TABLE}?").first.click()
    report = page.get_by_role("link", name="the report").first
    report.wait_for()
    operator.picture("approval")
    address, asked_at = str(report.get_attribute("href")), page.url
    operator.open(address)
    page.get_by_text("within thresholds").first.wait_for()
    assert page.get_by_text("p99_value").count()
    operator.picture("comparison")
    operator.open(asked_at)
    page.get_by_text(f"Promote {TABLE}?").first.click()
    page.get_by_test_id("hitl-option-Approve").click()
    reached(world, run, "promote", "success")
    assert "p99_value" in world.columns(TABLE)
    operator.open(f"/dags/reprocess/runs/{quote(run)}")
    page.get_by_text("promoted, approved by admin").first.wait_for()


def test_exports_and_marts_follow(world: World, operator: Operator, run: str) -> None:
    reached(world, run, "exports", "success")
    reached(world, run, "marts", "success")
    reached(world, run, "verdict", "success")
    assert (world.settings.home / "export" / "duckdb" / "live.duckdb").is_file()
    operator.open(f"/dags/reprocess/runs/{quote(run)}")
    operator.page.get_by_test_id("state-badge").get_by_text("Success").first.wait_for()
    operator.picture("promoted")


def test_what_follows_what(world: World, operator: Operator) -> None:
    found = world.ask("/api/v2/assets?limit=1000")["assets"]
    (asset,) = (one for one in found if one["name"] == TABLE)
    operator.open(f"/assets/{asset['id']}")
    operator.page.get_by_text("Task Dependencies").click()
    for name in ("bronze.readings", "silver.readings", "export.duckdb", "mart.sensor_hours"):
        operator.page.get_by_text(name, exact=True).first.wait_for()
    operator.page.get_by_role("button", name=re.compile("fit view", re.I)).click()
    operator.picture("assets")


def test_our_pages_are_whole_and_behind_the_login(
    world: World, operator: Operator, browser: Browser
) -> None:
    page = operator.page
    operator.errors.clear()
    operator.open("/penstock/")
    for name in ("Data Docs", "dbt docs", TABLE):
        page.get_by_role("link", name=name).first.wait_for()
    operator.picture("pages")
    operator.open("/penstock/sites/quality/")
    page.locator(f"a[href^='{TABLE}/']").first.click()
    page.get_by_text("Table-Level Expectations").wait_for()
    operator.picture("data-docs")
    operator.open("/penstock/sites/dbt/#!/model/model.penstock_marts.sensor_hours")
    page.get_by_text("sensor_hours").first.wait_for()
    operator.picture("dbt-docs")
    refused = [text for text in operator.errors if "Content Security Policy" in text]
    assert refused == [], "a page asked for what it may not have"
    with browser.new_context() as stranger:
        other = stranger.new_page()
        for path in ("/penstock/", "/penstock/sites/quality/", "/penstock/sites/dbt/"):
            other.goto(f"{operator.airflow}{path}")
            assert "/auth/" in other.url, path
