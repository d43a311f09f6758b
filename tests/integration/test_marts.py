"""The marts on real Delta tables, a real metastore in Postgres, and real dbt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.lineage.ledger import measure
from penstock.lineage.revisions import Revisions
from penstock.platform.stack import Stack
from penstock.serve.query import run_query
from penstock.settings import Settings
from tests.integration.marts_rows import CASTS, rows_of

pytestmark = [pytest.mark.platform, pytest.mark.spark]

PROJECT = Path(__file__).resolve().parents[2]
INCREMENTAL = ("sensor_hours", "page_days", "stock_minutes")


@pytest.fixture(scope="module")
def home(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A stack with tables of its own, on the Postgres the other tests use."""
    folder = tmp_path_factory.mktemp("marts") / "home"
    shutil.copytree(stack.settings.home / "secrets", folder / "secrets")
    (folder / "secrets").chmod(0o700)
    return replace(stack.settings, home=folder, project=PROJECT)


@pytest.fixture(scope="module")
def before() -> set[str]:
    return set(tree())


@pytest.fixture(scope="module")
def seen(home: Settings, before: set[str]) -> dict[str, Any]:
    """What the story saw; one JVM for all of it."""
    out = home.home / "seen.json"
    process = start(home, "-m", "tests.integration.marts_story", str(out))
    words = watched(process, home)
    assert process.returncode == 0, words[-4000:]
    return {**json.loads(out.read_text()), "stderr": words}


def start(home: Settings, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=home.environment(),
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def watched(process: subprocess.Popen[bytes], home: Settings) -> str:
    """Wait for it; meanwhile look at what its processes show to everybody on the machine."""
    secret, looked = home.secret("postgres-metastore").encode(), 0
    log = home.home / f"out-{process.pid}.txt"
    with log.open("wb") as sink:
        pump = subprocess.Popen(["cat"], stdin=process.stdout, stdout=sink)
        while process.poll() is None:
            for pid in [process.pid, *children(process.pid)]:
                try:
                    shown = Path(f"/proc/{pid}/cmdline").read_bytes()
                    shown += Path(f"/proc/{pid}/environ").read_bytes()
                except OSError:
                    continue
                assert secret not in shown
                looked += b"java" in shown
            time.sleep(0.3)
        pump.wait(10)
    assert looked, "no JVM was seen: nothing was checked"
    return log.read_text(errors="replace")


def children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def tree() -> list[str]:
    found = (PROJECT / "dbt_project").rglob("*")
    return [str(path) for path in found]


def live(home: Settings, name: str) -> pa.Table:
    return DeltaTable(str(home.warehouse.joinpath(*name.split(".")))).to_pyarrow_table()


def by_duckdb(home: Settings, query: str, **tables: str) -> list[list[str]]:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for alias, name in tables.items():
        database.register(alias, live(home, name))
    return rows_of(database.sql(query).to_arrow_table())


def columns(home: Settings, mart: str, *names: str) -> list[list[str]]:
    return rows_of(live(home, f"marts.{mart}").select(list(names)))


# --- the runs -----------------------------------------------------------------------------------
def test_marts_over_tables_without_data_are_empty_not_broken(seen):
    first = seen["empty"]
    assert first["ok"], first["tests"]
    assert len(first["empty"]) == 10
    built = [m for m in first["models"] if m["kind"] != "view"]
    assert len(built) == 13
    assert {m["status"] for m in built} == {"success"}
    assert {m["rows"] for m in built} == {0}


def test_the_first_data_reaches_every_mart_over_it(seen):
    assert seen["filled"]["ok"], seen["filled"]["tests"]
    rows = {m["name"]: m["rows"] for m in seen["filled"]["models"]}
    made = ("stock_minutes", "stock_days", "sensor_hours", "sensor_health", "page_days",
            "audience_days", "user_activity", "shop_days")  # fmt: skip
    assert all(rows[f"marts.{name}"] > 0 for name in made), rows


def test_nothing_is_computed_when_nothing_was_touched(seen):
    for model in seen["again"]["models"]:
        assert model["how"].startswith("0 touched scopes"), model
    assert seen["again"]["ok"]
    assert seen["again"]["tables"] == seen["filled"]["tables"]


def test_registering_and_running_writes_to_no_live_log(seen):
    assert seen["live"] == seen["live again"]


def test_after_a_swap_only_touched_scopes_are_computed(seen):
    how = {m["name"]: m["how"] for m in seen["changed"]["models"]}
    assert how["marts.sensor_hours"].startswith("1 touched scope ")  # the first of four days
    assert how["marts.page_days"].startswith("1 touched scope ")
    assert how["marts.stock_minutes"].startswith("2 touched scopes ")
    again, changed = seen["again"]["tables"], seen["changed"]["tables"]
    assert all(again[mart] != changed[mart] for mart in INCREMENTAL)


@pytest.mark.parametrize("mart", INCREMENTAL)
def test_after_a_swap_an_incremental_mart_equals_a_full_refresh(seen, mart):
    assert seen["changed"]["tables"][mart] == seen["full"]["tables"][mart]
    (model,) = (m for m in seen["full"]["models"] if m["name"] == f"marts.{mart}")
    assert model["how"] == "everything (asked for)"


def test_rows_that_a_swap_took_away_are_gone_from_the_mart(seen, home):
    assert any("gone" in row for row in seen["again"]["tables"]["sensor_hours"])
    assert not any("gone" in row for row in seen["changed"]["tables"]["sensor_hours"])
    assert any("/only-old" in row for row in seen["again"]["tables"]["page_days"])
    assert not any("/only-old" in row for row in seen["changed"]["tables"]["page_days"])


# --- against somebody else's arithmetic -----------------------------------------------------------
def test_sensor_hours_are_what_duckdb_computes(seen, home):
    expected = by_duckdb(
        home,
        """
        select sensor_id, date_trunc('hour', window_start) as hour, min(min_value) as min_value,
               max(max_value) as max_value, max(p95_value) as highest_p95,
               sum(readings)::bigint as readings, count(*) as windows
        from s group by all
        """,
        s="gold.sensor_5m",
    )
    names = ("sensor_id", "hour", "min_value", "max_value", "highest_p95", "readings", "windows")
    assert columns(home, "sensor_hours", *names) == expected


def test_page_days_are_what_duckdb_computes(seen, home):
    expected = by_duckdb(
        home,
        """
        select clicked_at::date as day, page, count(*) as views,
               count(distinct user_id) as visitors, count(*) filter (known) as known_views,
               count(*) filter (tier = 'gold') as gold_views
        from c group by all
        """,
        c="gold.clicks_enriched",
    )
    names = ("day", "page", "views", "visitors", "known_views", "gold_views")
    assert columns(home, "page_days", *names) == expected


def test_stock_minutes_are_what_duckdb_computes(seen, home):
    expected = by_duckdb(
        home,
        """
        select ticker, date_trunc('minute', window_start) as minute, sum(trades)::bigint as trades,
               min(min_ask_price) as low_ask, count(*) as windows
        from s where is_final and epoch(window_start)::bigint % 5 = 0 group by all
        """,
        s="gold.stock_stats",
    )
    assert len(expected) > 100
    names = ("ticker", "minute", "trades", "low_ask", "windows")
    assert columns(home, "stock_minutes", *names) == expected


def test_shop_days_are_what_duckdb_computes(seen, home):
    expected = by_duckdb(
        home,
        """
        select sold_at::date as day, sum(quantity)::bigint as pairs_sold,
               sum(revenue)::decimal(28, 2) as revenue, count(*) as bookings
        from s group by all
        """,
        s="silver.sales",
    )
    assert columns(home, "shop_days", "day", "pairs_sold", "revenue", "bookings") == expected


# --- settings, tests, docs, traces --------------------------------------------------------------
def test_casts_are_the_jobs(seen, spark):
    """The other session is set as the supervisor's: what it refuses dbt must refuse."""

    def answer(text: str) -> str:
        try:
            return str(spark.sql(f"select cast({text} as string)").collect()[0][0])
        except Exception:
            return "refused"

    expected = {text: answer(text) for text in CASTS}
    assert list(expected.values()).count("refused") == 11
    assert seen["casts"] == expected
    assert seen["views"] == expected
    assert seen["ansi"] == "true"


def test_the_unit_tests_pass(seen):
    assert (seen["unit"]["tests_passed"], seen["unit"]["tests"]) == (5, [])


def test_the_docs_are_one_page_and_nobody_is_told(seen, home):
    page = home.home / "sites" / "dbt" / "index.html"
    assert seen["docs"] == str(page)
    text = page.read_text()
    assert "stock_minutes" in text
    assert '"send_anonymous_usage_stats": false' in text.replace(":false", ": false")


def test_dbt_writes_nothing_into_the_project(seen, before):
    assert set(tree()) == before


def test_the_password_is_in_private_files_only(seen, home):
    secret = home.secret("postgres-metastore")
    assert secret not in seen["stderr"]
    holders = [p for p in home.home.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    assert {p.relative_to(home.home).parts[0] for p in holders} == {"secrets", "etc"}
    assert all(p.stat().st_mode & 0o077 == 0 for p in holders)


def test_marts_can_be_queried_and_are_counted(seen, home):
    found = run_query(home, "select count(*) from marts.stock_days")
    assert found.rows[0][0] > 0
    ledger = measure(home, Revisions())
    (line,) = (li for li in ledger.lines if li.table == "marts.stock_days")
    assert line.rows == found.rows[0][0]
    assert line.data > 0


# --- another process ----------------------------------------------------------------------------
NAMES = """
from penstock.spark.session import build_session
from penstock.settings import Settings
session = build_session(Settings.load(), "names", memory="1g", quiet=True, metastore=True)
layers = ("gold.sensor_5m", "gold.clicks_enriched", "marts.sensor_hours", "staging.stg_sensor_5m",
          "silver.readings")
for name in layers:
    print("rows", name, session.table(name).count(), flush=True)
session.stop()
"""


def test_names_mean_the_same_in_another_process(seen, home):
    process = start(home, "-c", NAMES)
    words = watched(process, home)
    assert process.returncode == 0, words[-3000:]
    counted = {w.split()[1]: int(w.split()[2]) for w in words.splitlines() if w.startswith("rows ")}
    assert counted["gold.sensor_5m"] == counted["staging.stg_sensor_5m"]
    # No mart reads the last one: it has its name all the same, after the marts were made.
    assert "silver.readings" not in seen["filled"]["read"]
    for name in ("gold.sensor_5m", "gold.clicks_enriched", "marts.sensor_hours", "silver.readings"):
        assert counted[name] == live(home, name).num_rows


def test_a_failing_test_is_told_with_its_rows_and_a_second_run_is_refused(seen, home):
    rows = [{"region": "north", "merchandise": -5.0}, {"region": "south", "merchandise": 10.0}]
    more = {"pairs": 1, "trucks": 1, "median_load": 1.0, "p95_load": 1.0}
    folder = home.warehouse / "gold" / "merchandise_by_region"
    write_deltalake(str(folder), pa.Table.from_pylist([row | more for row in rows]))

    arguments = ("-m", "penstock.cli", "marts", "run", "--json", "--select", "+region_loads")
    process = start(home, *arguments)
    lock = home.run / "marts.lock"
    while lock.read_text() != str(process.pid):
        assert process.poll() is None
        time.sleep(0.05)
    second = subprocess.run(
        [sys.executable, *arguments],
        env=home.environment(), cwd=PROJECT, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert second.returncode == 5
    assert f"being run already (pid {process.pid})" in second.stderr

    words = watched(process, home)
    assert process.returncode == 1, words[-3000:]
    told = json.loads(words[words.index("\n{\n") :])
    assert not told["ok"]
    (failed,) = (test for test in told["tests"] if "between" in test["name"])
    assert failed["status"] == "fail"
    assert failed["failures"] == 2
    assert "share < 0" in failed["query"]
    rows_told = {m["name"]: m["rows"] for m in told["models"]}
    assert rows_told["marts.region_loads"] == 2
    assert os.path.isdir(home.logs / "dbt")
