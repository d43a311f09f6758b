"""Streams, a swap and a backfill on a Spark master with two workers; one of them is lost.

Slow on two cores, with seven virtual machines: `make cluster` runs it, `make test` does not.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.platform.stack import Stack
from tests.cluster import LOOPBACK, Cluster
from tests.live import FRAGILE, PATIENCE, Feed, Supervised, read, rows_where, started, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(600)]

GOLD = "gold.stock_stats"
EDIT = ('F.count(F.lit(1)).alias("trades"),',
        'F.count(F.lit(1)).alias("trades"),\n        F.max("size").alias("largest"),')  # fmt: skip

# A Python function with a helper, a constant and the engine's own package to take along.
LOUD = '''
import time
from pyspark.sql import functions as F
from penstock.model import Rows, table

MARK = "!"

def louder(word):
    return word + MARK


@F.udf("string")
def loud(word):
    return louder(word)


@F.udf("string")
def place(word):
    import penstock
    return f"{penstock.__file__} {time.tzname[0]}"  # __file__: no meaning of this module's own


@table("gold.loud", inputs={"trades": "silver.trades"}, kind=Rows())
def loud_trades(trades):
    """Every trade, said louder."""
    said, at = loud("ticker").alias("said"), place("ticker").alias("at")
    return trades.select("ticker", "size", said, at)
'''

SMALL = """
[tool.penstock.spark]
"spark.executor.memory" = "512m"
"spark.cores.max" = 2
"""


NAMES = """
from penstock.spark.session import build_session
from penstock.settings import Settings

session = build_session(
    Settings.load(), "penstock-marts", memory="1g", quiet=True, metastore=True
)
session.sql("create database if not exists probe")
session.sql("create table probe.numbers using delta as select id from range(0, 1000, 1, 4)")
print(*session.sql("select count(*), sum(id) from probe.numbers").first())
print(session.sparkContext.master)
session.stop()
"""


class World:
    """A stack and a cluster of its own; commands run as people run them."""

    def __init__(self, stack: Stack, cluster: Cluster) -> None:
        self.settings = stack.settings
        self.cluster = cluster
        self.supervised = Supervised(self.settings)
        self.module = self.settings.project / "spark_jobs" / "gold" / "stock_stats.py"
        self.feed = Feed(self.settings)
        self._stopping = threading.Event()

    def start(self) -> None:
        self.supervised.start()
        threading.Thread(target=self._traffic, name="traffic", daemon=True).start()

    def _traffic(self) -> None:
        number = 0
        while not self._stopping.wait(0.05):
            number += 1
            self.feed.send(f"T{number % 7}", size=20 + number % 50)

    def quieten(self) -> None:
        self._stopping.set()
        time.sleep(0.2)
        self.feed.flush()

    def stop(self) -> None:
        self._stopping.set()
        self.supervised.kill_all()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command; one that does not end is asked where it stands."""
        env = self.settings.environment(PYTHONFAULTHANDLER="1")
        command = [sys.executable, *words]
        process = subprocess.Popen(
            command, env=env, cwd=self.settings.project, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def penstock(self, *words: str) -> Any:
        done = self.run("-m", "penstock.cli", *words, "--json")
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-3000:])
        return json.loads(done.stdout)

    def tasks(self) -> dict[str, dict[str, int]]:
        """Application -> worker -> tasks, as the executors' own logs tell."""
        found: dict[str, dict[str, int]] = {}
        for worker in ("worker-1", "worker-2"):
            for log in self.cluster.logs(worker):
                counts = found.setdefault(log.parents[1].name, {})
                ran = len(re.findall(r"Running task \d", log.read_text()))
                counts[worker] = counts.get(worker, 0) + ran
        return found


@pytest.fixture(scope="module")
def world(base_settings, test_project, tmp_path_factory) -> Iterator[World]:
    project = tmp_path_factory.mktemp("clustered") / "project"
    shutil.copytree(test_project, project)
    (project / "spark_jobs" / "fragile.py").write_text(FRAGILE)
    (project / "spark_jobs" / "gold" / "loud.py").write_text(LOUD)
    with (project / "pyproject.toml").open("a") as file:
        file.write(SMALL)
    offset = base_settings.port_offset + 1600
    with tempfile.TemporaryDirectory(prefix="penstock-cluster-") as folder:
        cluster = Cluster(Path(folder).resolve(), 14040 + offset, base_settings.java_home)
        spark = replace(
            base_settings.spark, master=cluster.master, file=cluster.properties, table=()
        )
        settings = replace(
            base_settings,
            home=cluster.folder / "home",
            project=project,
            port_offset=offset,
            spark=spark,
        )
        shutil.copytree(base_settings.project / "infra", project / "infra")
        stack, world = Stack(settings), None
        try:
            cluster.start()
            started(stack)
            world = World(stack, cluster)
            world.start()
            yield world
        finally:
            if world is not None:
                world.stop()
            stack.down()
            cluster.stop()


def test_rows_reach_every_layer(world):
    home = world.settings
    start = dt.datetime.now(dt.UTC)
    for number in range(40):
        world.feed.send("FLOW", size=20, at=start + dt.timedelta(milliseconds=100 * number))
    world.feed.flush()
    wait_for("silver", lambda: len(rows_where(home, "silver", "trades", ticker="FLOW")) == 40)
    wait_for("the function", lambda: len(rows_where(home, "gold", "loud", ticker="FLOW")) == 40)

    def windows() -> list[dict]:
        found = rows_where(home, "gold", "stock_stats", ticker="FLOW")
        return found if found and all(row["is_final"] for row in found) else []

    assert sum(row["trades"] for row in wait_for("windows", windows)) == 40 * 5


def test_a_function_takes_its_code_the_engine_and_the_zone_along(world):
    rows = rows_where(world.settings, "gold", "loud", ticker="FLOW")
    assert {row["said"] for row in rows} == {"FLOW!"}
    ((path, zone),) = {tuple(row["at"].split()) for row in rows}
    assert path.endswith("penstock.zip/penstock/__init__.py"), "not the one installed there"
    assert zone == "UTC", "although the workers were started in another zone"


def test_a_row_that_breaks_a_transform_is_set_apart(world):
    world.feed.send("BROKEN", size=13)
    world.feed.send("WHOLE", size=14)
    world.feed.flush()
    wait_for("the other", lambda: rows_where(world.settings, "silver", "fragile", ticker="WHOLE"))
    (row,) = wait_for(
        "it", lambda: read(world.settings, "quarantine", "silver_fragile").to_pylist()
    )
    assert row["error_class"] == "transform_error"
    assert "DIVIDE_BY_ZERO" in row["error"]


def test_both_workers_compute(world):
    (tasks,) = world.tasks().values()
    assert len(tasks) == 2, tasks
    assert min(tasks.values()) > 20, tasks


def test_no_secret_is_to_be_seen(world):
    """The logins to Kafka and Postgres, and the cluster's own secret."""
    names = ("kafka-supervisor", "postgres-penstock")
    secrets = [world.cluster.secret, *(world.settings.secret(name) for name in names)]
    pages = [f"http://{LOOPBACK}:{world.cluster.port + 10 + n}/{p}" for n in range(3)
             for p in ("", "json/")]  # fmt: skip
    shown = [urllib.request.urlopen(page).read().decode() for page in pages]
    assert "penstock-supervisor" in shown[0]
    shown += [path.read_text() for path in world.cluster.folder.glob("*.log")]
    shown += [p.read_text() for w in ("worker-1", "worker-2") for p in world.cluster.logs(w)]
    shown += [path.read_text() for path in world.settings.logs.glob("supervisor*.log")]
    for process in psutil.process_iter():
        try:
            shown.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    assert not [text[:200] for text in shown if any(secret in text for secret in secrets)]


def test_status_and_doctor_say_where_it_computes(world):
    told = world.penstock("status")
    assert told["spark"] == {"master": world.cluster.master, "trouble": ""}
    checks = {check["name"]: check for check in world.penstock("doctor")}
    assert checks["spark"]["outcome"] == "ok"
    assert world.cluster.master in checks["spark"]["message"]


def test_a_changed_table_is_staged_compared_and_promoted(world):
    text = world.module.read_text()
    assert EDIT[0] in text
    world.module.write_text(text.replace(*EDIT))
    planned = world.penstock("plan")["changes"]  # without executors
    (staged,) = world.penstock("stage", GOLD, "--why", "a test")
    assert staged["state"] == "ready"
    told = world.penstock("compare", GOLD)
    assert told["within"], told
    world.penstock("promote", GOLD, "--why", "a test")
    assert "largest" in read(world.settings, "gold", "stock_stats").column_names
    assert [change["table"] for change in planned] == [GOLD], [c["meaning"] for c in planned]


def test_a_backfill_of_what_is_right_changes_nothing(world):
    end = dt.datetime.now(dt.UTC)
    span = ("--from", (end - dt.timedelta(hours=1)).isoformat(), "--to", end.isoformat())
    told = world.penstock("backfill", "silver.trades", *span, "--why", "a test")
    assert told["results"] > 50
    assert told["changed"] == 0
    _, *bounded = world.tasks().values()  # the first is the supervisor
    assert len(bounded) == 2, "stage and backfill are applications of the cluster; the rest is not"
    assert all(sum(tasks.values()) for tasks in bounded), bounded


def test_marts_find_names_and_write_tables_there(world):
    """What a mart does: a named table, made of rows that executors computed, in the metastore."""
    done = world.run("-c", NAMES)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1000", "499500", world.cluster.master]


def test_a_worker_that_is_lost_loses_nothing(world):
    before = len(read(world.settings, "silver", "trades"))
    wait_for("rows to flow", lambda: len(read(world.settings, "silver", "trades")) > before)
    world.cluster.kill("worker-2")
    time.sleep(5)
    world.quieten()
    sent = set(world.feed.acked)

    def places(layer: str) -> list[tuple[int, int]]:
        rows = read(world.settings, layer, "trades")
        return list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))

    wait_for("every row", lambda: sent <= set(places("silver")), 120)
    for layer in ("bronze", "silver"):
        found = places(layer)
        assert len(found) == len(set(found)), f"{layer} has rows twice"
        assert set(found) == sent, layer
    wait_for("readers", lambda: len(read(world.settings, "gold", "loud")) == len(sent))
    balance = world.penstock("outcomes")
    assert {row["missing"] for row in balance} == {0}


def test_without_a_master_what_runs_goes_on_and_nothing_new_begins(world):
    world.cluster.kill("master")
    world.feed.send("ALONE", size=20)
    world.feed.flush()
    wait_for("it", lambda: rows_where(world.settings, "gold", "loud", ticker="ALONE"), 60)
    assert "does not answer" in world.penstock("status")["spark"]["trouble"]
    refused = world.run("-m", "penstock.cli", "stage", GOLD)
    assert refused.returncode == 7
    assert f"{world.cluster.master} does not answer" in refused.stderr
    assert "Traceback" not in refused.stderr
