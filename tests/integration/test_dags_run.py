"""DAGs run for real: `dag.test()` on the embedded platform, questions answered through the API."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from penstock.airflow.manifest import known
from penstock.platform.stack import Stack
from penstock.runtime import heartbeat
from penstock.runtime.registry import Registry
from penstock.runtime.staging import Staging
from tests.airflow_world import FORMS, Runner, attacks
from tests.live import Feed, Supervised, started, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(1500)]

GOLD = "gold.stock_stats"
EDIT = ('F.count(F.lit(1)).alias("trades"),',
        'F.count(F.lit(1)).alias("trades"),\n        F.max("size").alias("largest"),')  # fmt: skip
DONE = "exports|marts"  # of a reprocess; the DAGs of these names are run below
SUITE = "expectations/gold/stock_stats.py"
# No window of this traffic has so many trades: every row fails.
STRICT = """
import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.stock_stats",
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="trades", min_value=1000),
        "windows with few trades were asked to be refused",
    ),
)
"""
YESTERDAY = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)


class World:
    def __init__(self, stack: Stack, project: Path) -> None:
        self.settings = replace(stack.settings, project=project)
        self.supervised = Supervised(self.settings)
        self.feed = Feed(stack.settings)
        self.stopping = threading.Event()

    def start(self) -> None:
        # Rows of a day that is over, before any of today; its last seconds, because the topic
        # keeps rows for 24 hours only.
        evening = dt.datetime.combine(YESTERDAY, dt.time(23, 59, 30), dt.UTC)
        for number in range(20):
            self.feed.send(f"T{number % 3}", at=evening + dt.timedelta(seconds=number))
        self.feed.flush()
        self.supervised.start()
        wait_for("yesterday in silver", lambda: self.rows("silver", "trades") >= 20)
        threading.Thread(target=self.traffic, daemon=True).start()

    def traffic(self) -> None:
        number = 0
        while not self.stopping.wait(0.2):
            number += 1
            self.feed.send(f"T{number % 7}", size=1 + number % 50)

    def rows(self, layer: str, name: str) -> int:
        path = self.settings.warehouse / layer / name
        return DeltaTable(str(path)).to_pyarrow_table().num_rows

    def live(self, name: str = "stock_stats") -> DeltaTable:
        return DeltaTable(str(self.settings.warehouse / "gold" / name))

    def revision(self) -> int:
        """How far the revision behind live is, by its own log."""
        name = f"{GOLD}@{known(self.settings).revisions[GOLD]}"
        streams = {s["stream"]: s for s in heartbeat.streams(self.settings)}
        return int(streams[name]["version"])

    def exported(self) -> dict[str, Any]:
        """What the DuckDB file claims to hold of the table, and how many rows it has."""
        file = self.settings.home / "export" / "duckdb" / "live.duckdb"
        with duckdb.connect(str(file), read_only=True) as duck:
            (rows,) = duck.execute(f"select count(*) from {GOLD}").fetchone()
            claim = duck.execute(
                "select delta_version, rows from penstock.exports where table_name = ?", [GOLD]
            ).fetchone()
        return {"version": claim[0], "claimed": claim[1], "rows": rows}

    @property
    def staging(self) -> Staging:
        return Staging(Registry(self.settings))


@pytest.fixture(scope="module")
def world(base_settings, test_project, tmp_path_factory) -> Iterator[World]:
    project = tmp_path_factory.mktemp("dags") / "project"
    shutil.copytree(test_project, project)
    (project / "spark_jobs" / "fragile.py").unlink()
    here = Path(__file__).resolve().parents[2]
    shutil.copytree(here / "dbt_project", project / "dbt_project")
    for name in ("silver/trades.py", "gold/stock_stats.py"):
        (project / "expectations" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here / "expectations" / name, project / "expectations" / name)
    with tempfile.TemporaryDirectory(prefix="penstock-dags-") as folder:
        offset = base_settings.port_offset + 1600
        stack = Stack(replace(base_settings, home=Path(folder).resolve(), port_offset=offset))
        world = None
        try:
            started(stack)
            world = World(stack, project)
            world.start()
            wait_for("windows", lambda: world.rows("gold", "stock_stats") > 30)
            module = project / "spark_jobs" / "gold" / "stock_stats.py"
            text = module.read_text()
            assert EDIT[0] in text
            module.write_text(text.replace(*EDIT))
            yield world
        finally:
            if world is not None:
                world.stopping.set()
                world.supervised.kill_all()
            stack.down()


@pytest.fixture(scope="module")
def airflow(world: World, project: Path, tmp_path_factory) -> Iterator[Runner]:
    log = tmp_path_factory.mktemp("airflow") / "runner.log"  # outlives the stack: look there
    runner = Runner(replace(world.settings, project=project), world.settings.project, log)
    yield runner
    runner.stop()


def form(**more: object) -> dict[str, object]:
    asked = {"tables": [GOLD], "reason": "largest trade asked for", "threshold": 1.0}
    return {**asked, "watch_minutes": 0, "most_behind": 10_000, **more}


def test_the_api_refuses_what_is_no_form(airflow: Runner) -> None:
    for dag, conf in FORMS.items():
        assert airflow.ask(trigger=dag, conf=conf)["status"] == 200, dag
    passed = []
    for dag, field, value in attacks(per_field=6):
        told = airflow.ask(trigger=dag, conf={**FORMS[dag], field: value})
        if told["status"] not in (400, 422):
            passed.append((dag, field, value, told["status"]))
    assert passed == []


def test_rejected_candidates_are_given_up(world: World, airflow: Runner) -> None:
    before = DeltaTable(str(world.settings.warehouse / "gold" / "stock_stats")).schema()
    told = airflow.ask(dag="reprocess", conf=form(), answer="Reject", done=DONE)
    assert told["tasks"]["approval"] == "success", told
    assert told["tasks"]["abort"] == "success"
    assert told["tasks"]["promote"] == "skipped"
    assert told["state"].endswith("success")
    assert world.staging.candidates() == []
    assert world.staging.promotions() == []
    assert DeltaTable(str(world.settings.warehouse / "gold" / "stock_stats")).schema() == before


def test_tables_are_exported_as_they_are(world: World, airflow: Runner) -> None:
    told = airflow.ask(dag="export_olap", conf={"tables": [GOLD]})
    assert told["state"].endswith("success"), told
    assert told["tasks"] == {
        "gate": "success", "duckdb": "success", "clickhouse": "success", "parquet": "skipped",
    }  # fmt: skip
    held = world.exported()
    shown = DeltaTable(world.live().table_uri, version=held["version"]).to_pyarrow_table()
    assert held["rows"] == held["claimed"] == shown.num_rows > 0
    assert f"{GOLD} {held['rows']:,} rows" in told["notes"]["duckdb"]
    assert "clickhouse: 1 tables" in told["note"]


def test_marts_and_their_docs_are_built_by_one_task(world: World, airflow: Runner) -> None:
    told = airflow.ask(dag="marts", conf={"models": ["stock_minutes"]})
    assert told["tasks"] == {"run": "success"}, told
    built = DeltaTable(str(world.settings.warehouse / "marts" / "stock_minutes"))
    rows = built.to_pyarrow_table().num_rows
    assert rows > 0
    assert f"1 built, {rows:,} rows" in told["note"]
    assert (world.settings.sites / "dbt" / "index.html").is_file()
    assert f"({world.settings.airflow_url}/penstock/sites/dbt/index.html)" in told["note"]


@pytest.mark.slow  # seven runs of DAGs, one after the other
def test_a_blocking_failure_stops_readers_and_never_the_stream(
    world: World, airflow: Runner
) -> None:
    suite = world.settings.project / SUITE
    good = suite.read_text()
    told = airflow.ask(dag="export_olap", conf={"tables": [GOLD], "targets": ["duckdb"]})
    assert told["tasks"]["duckdb"] == "success", told
    before = world.exported()
    suite.write_text(STRICT)
    told = airflow.ask(dag="quality", conf={"tables": [GOLD]})
    assert told["tasks"] == {"silver": "skipped", "gold": "failed"}, told
    hold = world.staging.holds()[GOLD]
    assert hold.held_by == "quality"

    # The note: which expectation, how many rows, what is held, where to look.
    (version,) = re.findall(rf"{GOLD} version (\d+): FAILED", told["note"])
    rows = DeltaTable(world.live().table_uri, version=int(version)).to_pyarrow_table().num_rows
    assert f"{rows:,} of {rows:,} rows (windows with few trades" in told["note"]
    assert "trades" in told["note"]
    assert f"held: {GOLD}" in told["note"]
    (page,) = re.findall(r"\[which rows\]\(http://[^/]+/penstock/(sites/[^)]+)\)", told["note"])
    assert "1000" in (world.settings.home / page).read_text()

    # Live stands, the stream behind it goes on.
    shown, made = world.live().version(), world.revision()
    wait_for("the stream to go on", lambda: world.revision() > made + 3)
    assert world.live().version() == shown

    # Neither an export nor a promote gets past it.
    told = airflow.ask(dag="export_olap", conf={"tables": [GOLD], "targets": ["duckdb"]})
    assert told["tasks"]["gate"] == told["tasks"]["duckdb"] == "failed", told
    assert "blocked" in told["notes"]["duckdb"]
    assert world.exported() == before
    told = airflow.ask(dag="reprocess", conf=form(), done=DONE)
    assert told["tasks"]["stage"] == "success", told
    assert told["tasks"]["quality_gate"] == "failed"
    assert told["tasks"]["promote"] == "upstream_failed"
    assert world.staging.promotions() == []

    # Mended, the same run lets go and shows what came meanwhile.
    suite.write_text(good)
    told = airflow.ask(dag="quality", conf={"tables": [GOLD]})
    assert told["tasks"]["gold"] == "success", told
    assert f"{GOLD} passes again" in told["note"]
    assert GOLD not in world.staging.holds()
    wait_for("live to go on", lambda: world.live().version() > shown)


def test_approved_candidates_go_live_in_the_name_of_who_approved(
    world: World, airflow: Runner
) -> None:
    told = airflow.ask(dag="reprocess", conf=form(), answer="Approve", done=DONE)
    assert told["tasks"]["promote"] == "success", told
    assert told["tasks"]["abort"] == "skipped"
    assert told["tasks"]["watch"] == "success"
    (done,) = world.staging.promotions(GOLD)
    assert done.who.startswith("tester (through ")
    assert done.why == "largest trade asked for"
    live = DeltaTable(str(world.settings.warehouse / "gold" / "stock_stats"))
    assert "largest" in [field.name for field in live.schema().fields]
    reports = list((world.settings.home / "reports").rglob("*.html"))
    assert reports


def test_a_day_is_computed_again_and_an_open_one_skipped(world: World, airflow: Runner) -> None:
    before = world.rows("gold", "stock_stats")
    conf = {"tables": [GOLD], "reason": "a day again"}
    told = airflow.ask(dag="backfill", conf={**conf, "day": str(YESTERDAY)})
    assert told["tasks"]["recompute[0]"] == "success", told
    assert world.rows("gold", "stock_stats") >= before
    today = str(dt.datetime.now(dt.UTC).date())
    told = airflow.ask(dag="backfill", conf={**conf, "day": today})
    assert told["tasks"]["recompute[0]"] == "skipped", told
    told = airflow.ask(dag="backfill", conf={"tables": []})
    assert told["tasks"]["which"] == "skipped", told
