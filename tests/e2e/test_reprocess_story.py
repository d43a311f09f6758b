"""The story for a table of every kind: edited, staged, compared, promoted, rolled back, promoted.

Those tables and what they read run, with the demo's traffic, and four readers poll throughout:
delta-rs, DuckDB through `penstock query`, Spark by path, and a Spark stream on the change feed. No
read fails, none is mixed, and what the stream has built is the live table in the end.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.cli.asking import ask
from penstock.platform.stack import Stack
from penstock.reprocess.comparison import Wishes
from penstock.reprocess.release import Releases
from penstock.reprocess.request import Request
from penstock.reprocess.stage import Stager
from penstock.runtime.registry import Registry
from penstock.serve.query import run_query
from tests.live import wait_for
from tests.readers import Poller, bag, by_delta_rs, judge, newest

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(5400),
]

PARTS = ["postgres", "kafka", "registry", "connect", "supervisor"]
EDITS = {
    "gold.stock_stats": (("return trades.groupBy(", 'return trades.where("size > 5").groupBy('),),
    "gold.inventory": (("pairs.cast", "(pairs * 2).cast"),),
    "gold.merchandise_by_region": (('"0.95"', '"0.9"'),),
    "gold.sensor_5m": (
        ("return readings.groupBy(", 'return readings.where(~F.col("calibration")).groupBy('),
    ),
}
KEYS = {
    "gold.sensor_5m": ("sensor_id", "window_start"),
    "gold.stock_stats": ("ticker", "window_start"),
    "gold.inventory": ("model", "size"),
    "gold.merchandise_by_region": ("region",),
}
READ = (
    "silver.readings",
    "silver.trades",
    "silver.shipments",
    "silver.sales",
    "silver.returns",
    "silver.truck_positions",
    "silver.truck_loads",
)


class World:
    def __init__(self, settings, spark) -> None:
        self.settings, self.spark = settings, spark
        self.registry = Registry(settings)

    def live(self, table: str) -> Path:
        layer, name = table.split(".")
        return self.settings.warehouse / layer / name

    @property
    def releases(self) -> Releases:
        def through(table, verb, arguments):
            return ask(self.settings, table, verb, arguments, quiet=True)

        return Releases(self.settings, Registry(self.settings), through, getpass.getuser())

    def edit(self, table: str) -> None:
        module = self.settings.project / "spark_jobs" / "gold" / f"{table.split('.')[1]}.py"
        text = module.read_text()
        for old, new in EDITS[table]:
            assert old in text, (table, old)
            text = text.replace(old, new)
        module.write_text(text)

    def stage(self, table: str) -> None:
        stager = Stager(self.spark, self.settings, Registry(self.settings))
        release = stager.register(Request(table, who="me", why="a story"))
        stager.build(release, lambda name, progress: None)
        stager.wait_ready(release, seconds=600)


@pytest.fixture(scope="module")
def world(base_settings, project, spark, tmp_path_factory):
    copy = tmp_path_factory.mktemp("story") / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(project / name, copy)
    for name in ("spark_jobs", "infra", "dags"):
        shutil.copytree(project / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    _leave_out_the_rest(copy / "spark_jobs")
    with tempfile.TemporaryDirectory(prefix="penstock-story-") as folder:
        home = Path(folder).resolve()
        settings = replace(base_settings, project=copy, home=home, port_offset=8200)
        stack = Stack(settings)
        load = None
        try:
            stack.up(only=PARTS)
            load = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.demo", "--rate", "20", "--late", "0.05"],
                env=settings.environment(),
                cwd=copy,
                start_new_session=True,
            )
            yield World(settings, spark)
        finally:
            if load is not None:
                os.killpg(load.pid, signal.SIGTERM)
                load.wait(120)
            stack.down()


def _leave_out_the_rest(jobs: Path) -> None:
    """Two cores that run sixty tables beside four readers leave nothing for the story."""
    for layer in ("silver", "gold"):
        for module in (jobs / layer).glob("[a-z]*.py"):
            if f"{layer}.{module.stem}" not in {*KEYS, *READ}:
                module.unlink()


def by_query(world: World, table: str):
    def read() -> pa.Table:
        found = run_query(world.settings, f"select * from {table}")
        columns = list(zip(*found.rows, strict=True)) or [()] * len(found.columns)
        return pa.table({n: list(c) for n, c in zip(found.columns, columns, strict=True)})

    return read


class Feed:
    """A Spark stream on the change feed, and the table it builds, by key."""

    def __init__(self, spark, live: Path, keys: tuple[str, ...], place: Path) -> None:
        self.keys, self.held, self.version = keys, {}, -1
        self._spark, self._live, self._place = spark, live, place
        self.start()

    def start(self) -> None:
        self.stream = (
            self._spark.readStream.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", 0)
            .load(str(self._live))
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._place))
            .trigger(processingTime="500 milliseconds")
            .start()
        )

    def _take(self, frame, number) -> None:
        came = ("insert", "update_postimage")
        rows = frame.toArrow().to_pylist()
        for row in sorted(rows, key=lambda r: (r["_commit_version"], r["_change_type"] in came)):
            key = tuple(row[k] for k in self.keys)
            bare = {n: v for n, v in row.items() if not n.startswith("_")}
            if row["_change_type"] in came:
                self.held[key] = bare
            else:
                assert key in self.held, (row["_change_type"], key)
                del self.held[key]
            self.version = max(self.version, row["_commit_version"])


def exported(world: World, table: str) -> dict:
    """Export a table to the DuckDB file; what that holds is the version of Delta it claims."""
    run = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "export", table, "--to", "duckdb", "--json"],
        cwd=world.settings.project,
        env=world.settings.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    (target,) = json.loads(run.stdout)["targets"]
    (told,) = target["tables"]
    with duckdb.connect(target["place"], read_only=True) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        rows = duck.sql(f"from {table}").to_arrow_table()
    shown = DeltaTable(str(world.live(table)), version=told["delta_version"]).to_pyarrow_table()
    assert rows.column_names == shown.column_names
    assert bag(rows.cast(shown.schema)) == bag(shown)
    print(
        "export", {name: told[name] for name in ("mode", "delta_version", "rows", "rows_written")}
    )
    return told


@pytest.mark.parametrize("table", EDITS)
def test_story(world, spark, tmp_path, table):
    live = world.live(table)

    def filled() -> bool:
        return DeltaTable(str(live)).to_pyarrow_table().num_rows > 0

    wait_for(f"rows in {table}", filled, 900)
    world.edit(table)

    def by_spark() -> pa.Table:
        return spark.read.format("delta").load(str(live)).toArrow()

    feed = Feed(spark, live, KEYS[table], tmp_path / "checkpoint")
    with ExitStack() as pollers:
        readers = [
            pollers.enter_context(Poller(name, live, read))
            for name, read in (
                ("delta-rs", by_delta_rs(live)),
                ("duckdb", by_query(world, table)),
                ("spark", by_spark),
            )
        ]
        exported(world, table)
        world.stage(table)
        releases = world.releases
        told = releases.compare(table, Wishes(threshold=1.0))
        print(table, [t["counts"] for t in told["tables"]])
        done = releases.promote(table, why="the story", accept=None, keep_warm=None)
        print("promote", done)
        time.sleep(5)
        assert exported(world, table)["mode"] == "incremental"
        print("rollback", releases.rollback(table, why="the story goes back"))
        time.sleep(5)
        assert exported(world, table)["mode"] == "incremental"
        print("again", releases.promote(table, why="and on", accept=None, keep_warm=None))
        time.sleep(5)
        assert exported(world, table)["mode"] == "incremental"
    for reader in readers:
        seen = judge(reader, live)
        print(reader.name, len(reader.reads), "reads", dict(seen))
        assert len(seen) == 2, "both revisions were read"
    last = newest(live)
    wait_for("the feed to have come as far", lambda: feed.version >= last, 300)
    assert feed.stream.isActive, "a swap does not stop it"
    feed.stream.stop()
    shown = DeltaTable(str(live), version=feed.version).to_pyarrow_table()
    assert bag(list(feed.held.values())) == bag(shown)
    print("feed at version", feed.version, "has", shown.num_rows, "rows, as live")


def test_a_new_column_reaches_the_stream_and_the_export(world, spark, tmp_path):
    """Delta stops a stream once when the schema changes; started again, it goes on."""
    table = "gold.sensor_5m"
    live = world.live(table)
    module = world.settings.project / "spark_jobs" / "gold" / "sensor_5m.py"
    text = module.read_text()
    p95 = 'F.percentile("value", F.lit(0.95)).alias("p95_value"),'
    assert p95 in text
    p99 = p95.replace("0.95", "0.99").replace("p95", "p99")
    module.write_text(text.replace(p95, f"{p95}\n        {p99}"))
    feed = Feed(spark, live, KEYS[table], tmp_path / "checkpoint")
    exported(world, table)
    world.stage(table)
    world.releases.compare(table, Wishes(threshold=1.0))
    world.releases.promote(table, why="p99 too", accept=None, keep_warm=None)
    wait_for("the stream to be told", lambda: not feed.stream.isActive, 300)
    print("the stream says:", str(feed.stream.exception())[:200])
    assert "schema" in str(feed.stream.exception()).lower()
    feed.start()
    told = exported(world, table)
    # In the middle, so the file's columns are made in Delta's order: whole, and it says why.
    assert (told["mode"], told["reason"]) == ("full", "columns came in another order")
    last = newest(live)
    wait_for("the feed to have come as far", lambda: feed.version >= last, 300)
    feed.stream.stop()
    shown = DeltaTable(str(live), version=feed.version).to_pyarrow_table()
    assert "p99_value" in shown.column_names
    assert bag(list(feed.held.values())) == bag(shown)
