"""A stack whose tables are in an object store, from the first record to a swap and back."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.location import Remote, delta_table, walk
from penstock.platform.stack import Stack
from penstock.reprocess.comparison import Expected, Wishes
from penstock.runtime.registry import Registry
from penstock.runtime.upkeep.maintain import Maintenance, Pace
from penstock.serve.query import run_query
from tests.integration.test_reprocess_flow import EDIT, FILTER, GOLD, World, _through
from tests.live import PROJECT, wait_for
from tests.s3 import BUCKET, S3Server

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.slow,  # `make s3`
    pytest.mark.timeout(1200),
]

AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=20, share=1.0, least=1)


class Far(World):
    """The same story, with the tables elsewhere."""

    def rows(self) -> pa.Table:
        return delta_table(self.live).to_pyarrow_table()

    def places(self, layer: str) -> list[tuple[int, int]]:
        table = delta_table(self.settings.warehouse / layer / "trades")
        found = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
        return sorted((row["partition"], row["offset"]) for row in found)

    def doomed(self, step: str) -> subprocess.Popen[bytes]:
        """A supervisor that dies at a step."""
        with (self.settings.logs / f"doomed-{step}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.doomed", step, "supervise"],
                env=self.settings.environment(), cwd=PROJECT, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def typed(self, *words: str) -> dict:
        """A command as somebody types it, who set no variable but the server's address."""
        env = {k: v for k, v in self.settings.environment().items() if k != "PENSTOCK_WAREHOUSE"}
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *words, "--json"],
            check=False, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def world(base_settings, test_project, spark, s3: S3Server, tmp_path_factory) -> Iterator[Far]:
    project = tmp_path_factory.mktemp("far") / "project"
    shutil.copytree(test_project, project)
    (project / "spark_jobs" / "fragile.py").unlink()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-far-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        home = Path(folder).resolve()
        patch.setenv("AWS_ENDPOINT_URL", s3.endpoint)  # the keys are in files
        bucket = s3.bucket("penstock", home / "copies" / "files")
        settings = replace(
            base_settings, home=home, bucket=bucket, port_offset=base_settings.port_offset + 1500
        )
        stack, world = Stack(settings), None
        try:
            stack.up(only=["postgres", "kafka", "registry"])
            for name, text in (("warehouse-access", s3.access), ("warehouse-secret", s3.secret)):
                (home / "secrets" / name).touch(mode=0o600)
                (home / "secrets" / name).write_text(text)
            world = Far(stack, project, spark)
            world.start()
            wait_for("windows", lambda: world.count() > 30)
            yield world
        finally:
            if world is not None:
                world.stop()
            stack.down()


def test_nothing_of_a_table_is_below_home(world: Far):
    assert isinstance(world.settings.warehouse, Remote)
    assert not (world.settings.home / "warehouse").exists()
    layers = {found.location.key.split("/")[0] for found in walk(world.settings.warehouse)}
    assert layers >= {"bronze", "silver", "gold"}


def test_any_delta_reader_reads_it_by_its_address(world: Far, s3: S3Server):
    options = {**s3.environment(), "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    table = DeltaTable(f"s3://{BUCKET}/penstock/gold/stock_stats", storage_options=options)
    found = run_query(world.settings, f"select count(*) as n from {GOLD}@version:{table.version()}")
    assert [tuple(row) for row in found.rows] == [(table.to_pyarrow_table().num_rows,)]


def test_a_change_is_staged_compared_promoted_and_taken_back(world: Far):
    world.edit(EDIT, FILTER)
    world.stage()
    meant = Expected("new.trades is null or new.trades < old.trades", "no size 13")
    told = world.releases.compare(GOLD, Wishes(expected=[meant]))
    (report,) = told["tables"]
    assert told["within"], report["counts"]
    assert any("partition/offset" in row["source"] for row in report["worst"])
    done = world.releases.promote(GOLD, why="13 brings bad luck", accept=None, keep_warm=None)
    assert done["tables"][0]["changed"] > 0
    assert "largest" in world.rows().column_names
    world.releases.rollback(GOLD, why="it does not")
    assert "largest" not in world.rows().column_names
    version = delta_table(world.live).version()
    wait_for("live to go on", lambda: delta_table(world.live).version() > version + 1)


def test_commands_find_the_tables_and_read_them(world: Far):
    asked = f"select count(*) as n, max(window_start) as last from {GOLD}"
    assert world.typed("query", asked)
    told = world.typed("export", GOLD, "--to", "duckdb", "--verify")
    assert told
    (file,) = (world.settings.home / "export").rglob("*.duckdb")
    with duckdb.connect(str(file), read_only=True) as duck:
        assert duck.execute(f"select count(*) from {GOLD}").fetchone()[0] > 30
    ((ticker,),) = run_query(world.settings, f"select ticker from {GOLD} limit 1").rows
    lineage = world.typed("lineage", GOLD, f"ticker={ticker}")
    assert json.dumps(lineage).count("offset")
    assert world.typed("ledger")


def test_spark_opens_tables_by_name_and_makes_a_mart_of_one(world: Far, s3: S3Server, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.far_marts", str(tmp_path / "out.json")],
        check=False, env=world.settings.environment(PENSTOCK_PROJECT=str(PROJECT)), cwd=PROJECT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads((tmp_path / "out.json").read_text())
    assert {"bronze.trades", "silver.trades", GOLD} <= set(told["tables"])
    assert told["changed again"] == []
    assert "s3a" in told["commands"], "its jars are on the class path"
    assert s3.secret not in told["commands"]
    rows = delta_table(world.settings.warehouse / "marts" / "per_ticker").to_pyarrow_table()
    assert {"T1", "NONE"} <= set(rows["ticker"].to_pylist())
    found = run_query(world.settings, "select count(*) from marts.per_ticker").rows
    assert [tuple(row) for row in found] == [(rows.num_rows,)]


def test_maintenance_merges_cleans_up_and_removes(world: Far):
    before = sum(1 for _ in walk(world.settings.warehouse))
    registry = Registry(world.settings)
    for _ in range(2):

        def through(table, verb, told):
            if table.startswith("bronze."):
                verb, told = "compact-bronze", {**told, "table": table}
            return _through(world)(table, verb, told)

        done = Maintenance(world.settings.warehouse, registry.revisions(), through, pace=AT_ONCE)
        told = {one.table: one for one in done.run()}
        assert not [p for one in told.values() for p in one.problems]
        time.sleep(21)
    assert told["silver.trades"].commits_removed + told["bronze.trades"].commits_removed > 0
    assert sum(1 for _ in walk(world.settings.warehouse)) < before
    rows = world.count()
    wait_for("live to go on", lambda: world.count() > rows)


def test_a_supervisor_that_is_killed_loses_and_doubles_nothing(world: Far):
    """At some moment, and between the commit of a revision and the one that shows it."""
    processes = world.supervised.processes
    time.sleep(random.Random(11).uniform(0.5, 3.0))
    os.killpg(processes[-1].pid, signal.SIGKILL)
    processes[-1].wait(60)
    for step in ("mirror.before", "mirror.after"):
        assert world.doomed(step).wait(300) == -signal.SIGKILL
    world.supervised.start()
    world._stopping.set()
    time.sleep(0.5)
    world.feed.flush()
    wait_for("every trade", lambda: len(world.places("silver")) >= len(world.feed.acked))
    assert world.places("bronze") == sorted(world.feed.acked)
    assert world.places("silver") == sorted(world.feed.acked)


def test_no_key_is_in_a_log_or_on_a_command_line(world: Far, s3: S3Server):
    for file in world.settings.logs.rglob("*"):
        if file.is_file():
            assert s3.secret not in file.read_text(errors="replace"), file
    for process in world.supervised.processes[-1:]:
        line = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert s3.secret not in line
    for file in world.settings.home.rglob("*.json"):
        assert s3.secret not in file.read_text(errors="replace"), file
