"""Two supervisors share the tables: one dies, sleeps or comes back, and nothing is lost or doubled.

Trades and readings read nothing of one another, so each supervisor has one of them.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from trades_load import Load, check_exact, drained

from penstock.platform.stack import Stack
from penstock.runtime.delta.log import LEASE
from penstock.runtime.kafka import client_options
from penstock.settings import Settings
from tests.live import PROJECT, Feed, Supervised, read, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(1500)]

HELD = 20.0  # seconds from a death until the survivor holds every table: a lease of 10, and a look
ROWS = (
    120.0  # until the last of them has new rows: plans made for the first time, on a busy machine
)
TRADES = ("bronze/trades", "silver/trades", "gold/stock_stats")
READINGS = ("bronze/readings", "silver/readings")
KEPT = {
    "bronze": {"__init__.py", "trades.py", "readings.py"},
    "silver": {"__init__.py", "trades.py", "readings.py"},
    "gold": {"__init__.py", "stock_stats.py"},
    "contracts": {"__init__.py", "trades.avsc", "readings.avsc"},
}


class Readings:
    """Measurements in the background; what the broker acknowledged is remembered."""

    def __init__(self, settings: Settings, site: str) -> None:
        self._producer = Producer(client_options(settings, "demo-producer"))
        self._site = site
        self.acked: set[tuple[int, int]] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Readings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.05):
            number += 1
            at = dt.datetime.now(dt.UTC)
            row = {
                "sensor_id": f"{self._site}-{number % 5}",
                "value": number / 4,
                "unit": "celsius",
                "measured_at": at.isoformat(),
            }
            self._producer.produce(
                "readings", json.dumps(row).encode(), b"k", on_delivery=self._remember
            )
            self._producer.poll(0)

    def _remember(self, error, message) -> None:
        assert error is None, error
        self.acked.add((message.partition(), message.offset()))

    def check(self, home: Settings) -> None:
        """Silver has each of them, and each once."""

        def here() -> Counter:
            rows = read(home, "silver", "readings").to_pylist()
            mine = [r for r in rows if r["sensor_id"].startswith(self._site)]
            return Counter((r["partition"], r["offset"]) for r in mine)

        wait_for("readings to drain", lambda: sum(here().values()) >= len(self.acked))
        assert here() == Counter(self.acked)


class Pair:
    """A stack whose tables two supervisors share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.supervised = Supervised(settings)

    def tables(self, process) -> set[str]:
        beat = self.supervised.beat_of(process)
        if beat is None or beat.state != "running":
            return set()
        if not all(s["state"] == "running" for s in beat.streams):
            return set()
        return {s["table"].replace(".", "/") for s in beat.streams}

    def wait_split(self, *processes) -> dict[int, set[str]]:
        """Until each has a share, and all tables are somebody's."""

        def split() -> dict[int, set[str]] | None:
            shares = {p.pid: self.tables(p) for p in processes}
            every = set().union(*shares.values())
            once = sum(len(share) for share in shares.values()) == len(every)
            good = all(shares.values()) and once and every == {*TRADES, *READINGS}
            return shares if good else None

        return wait_for("the tables to be shared", split)

    def commits(self, table: str) -> list[tuple[float, dict]]:
        """When a commit was written, and its actions, oldest first; from the files alone."""
        files = (self.settings.warehouse / table / "_delta_log").glob("*.json")
        return [
            (file.stat().st_mtime, [json.loads(line) for line in file.read_text().splitlines()])
            for file in sorted(files)
            if file.stem.isdigit()
        ]

    def holders(self) -> set[int]:
        """Processes that hold tables, as the registry has it."""
        rows = self.supervised.registry.run("select distinct holder from holding")
        return {int(holder.rsplit("-", 2)[1]) for (holder,) in rows}

    def first_rows(self, table: str, since: float) -> float | None:
        """Seconds from a moment to the first commit after it that brought rows."""
        found = [
            at for at, acts in self.commits(table) if at > since and any("add" in a for a in acts)
        ]
        return round(found[0] - since, 1) if found else None

    def tokens(self, table: str) -> list[int]:
        txns = [a["txn"] for _, acts in self.commits(table) for a in acts if "txn" in a]
        return [t["version"] for t in txns if t["appId"] == LEASE]

    def penstock(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *arguments],
            env=self.settings.environment(), cwd=PROJECT, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def pair(base_settings: Settings, tmp_path_factory) -> Iterator[Pair]:
    project = tmp_path_factory.mktemp("shared")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(PROJECT / name, project)

    def ignored(place: str, names: list[str]) -> list[str]:
        kept = KEPT.get(Path(place).name)
        return [n for n in names if n == "__pycache__" or (kept is not None and n not in kept)]

    shutil.copytree(PROJECT / "spark_jobs", project / "spark_jobs", ignore=ignored)
    with tempfile.TemporaryDirectory(prefix="penstock-shared-") as folder:
        offset = base_settings.port_offset + 300
        home = Path(folder).resolve()
        settings = replace(base_settings, home=home, port_offset=offset, supervisors=2)
        stack = Stack(settings)
        pair = None
        try:
            stack.up(only=["postgres", "kafka", "registry"])
            pair = Pair(replace(settings, project=project))
            yield pair
        finally:
            if pair is not None:
                pair.supervised.kill_all()
            stack.down()


def started(pair: Pair):
    """Two supervisors, each with its share: that of trades, and the other."""
    both = [pair.supervised.start(wait=False) for _ in range(2)]
    shares = pair.wait_split(*both)
    assert sorted(map(len, shares.values())) == [len(READINGS), len(TRADES)]
    return sorted(both, key=lambda process: -len(shares[process.pid]))


def test_the_survivor_takes_over_and_gives_back(pair: Pair) -> None:
    home, supervised = pair.settings, pair.supervised
    feed = Feed(home)
    one, two = started(pair)
    shown = {s["stream"].split("@")[0] for s in json.loads(pair.penstock("streams", "--json"))}
    assert shown == {t.replace("/", ".") for t in (*TRADES, *READINGS)}
    with Load(feed, "DEAD"), Readings(home, "dead") as readings:
        time.sleep(5)
        killed = time.time()
        supervised.signal(one, signal.SIGKILL)
        one.wait()
        wait_for("the survivor to hold all", lambda: pair.holders() == {two.pid}, HELD)
        held = time.time() - killed
        took = {}
        for table in TRADES:
            wait_for(f"rows in {table}", lambda t=table: pair.first_rows(t, killed + 0.5))
            took[table] = pair.first_rows(table, killed + 0.5)
        print(f"from kill -9, in seconds: held after {held:.1f}, first new rows: {took}")
        wait_for("all at one", lambda: pair.tables(two) == {*TRADES, *READINGS})
        _gap(pair, "silver/readings", killed)

        back = supervised.start(wait=False)
        shares = pair.wait_split(back, two)
        assert shares[back.pid] == set(TRADES), "its share, as before"
        time.sleep(5)
    assert max(took.values()) < ROWS
    drained(home, feed, "DEAD")
    check_exact(home, feed, "DEAD")
    readings.check(home)
    _fenced(pair)
    for process in (back, two):
        assert supervised.stop(process) == 0


def _gap(pair: Pair, table: str, since: float) -> None:
    """How long the survivor's own table stood still while it took the other's."""
    moments = [at for at, acts in pair.commits(table) if any("add" in a for a in acts)]
    times = [at for at in moments if at > since - 5]
    longest = max(b - a for a, b in pairwise(times))
    print(f"the survivor's own {table} waited {longest:.1f} s at most")


def _fenced(pair: Pair) -> None:
    """In every log each holder's token is higher than the last one's."""
    for table in (*TRADES, *READINGS):
        tokens = pair.tokens(table)
        assert tokens == sorted(set(tokens)), (table, tokens)


def test_a_release_of_tables_of_both_and_commands_to_either(pair: Pair) -> None:
    home, supervised = pair.settings, pair.supervised
    feed = Feed(home)
    one, two = started(pair)
    jobs = home.project / "spark_jobs"
    counted = 'F.count(F.lit(1)).alias("trades"),'
    larger = f'{counted}\n        F.max("size").alias("largest"),'
    _edit(jobs / "gold" / "stock_stats.py", counted, larger)
    unit = '        "unit",\n'
    _edit(jobs / "silver" / "readings.py", unit, f'{unit}        F.upper("unit").alias("upper"),\n')
    with Load(feed, "BOTH"), Readings(home, "both") as readings:
        pair.penstock("stage", "--why", "one more column each")
        pair.penstock("compare")
        told = json.loads(pair.penstock("promote", "--why", "as agreed", "--json"))
        assert {t["table"] for t in told["tables"]} == {"gold.stock_stats", "silver.readings"}
        assert "largest" in read(home, "gold", "stock_stats").column_names
        assert "upper" in read(home, "silver", "readings").column_names

        supervised.signal(one, signal.SIGKILL)
        one.wait()
        wait_for("all at one", lambda: {*TRADES, *READINGS} <= pair.tables(two))
        pair.penstock("reconcile", "gold.stock_stats")
        pair.penstock("rollback", "--why", "by the survivor alone")
        assert "largest" not in read(home, "gold", "stock_stats").column_names
        assert "upper" not in read(home, "silver", "readings").column_names
        pair.penstock("hold", "silver.readings", "--why", "a look")
        pair.penstock("release", "silver.readings")
    readings.check(home)
    drained(home, feed, "BOTH")
    _fenced(pair)
    assert supervised.stop(two) == 0


def _edit(module: Path, old: str, new: str) -> None:
    text = module.read_text()
    assert old in text
    module.write_text(text.replace(old, new))


def test_a_sleeper_commits_nothing_under_its_old_tokens(pair: Pair) -> None:
    home, supervised = pair.settings, pair.supervised
    feed = Feed(home)
    one, two = started(pair)
    with Load(feed, "NAP"), Readings(home, "nap") as readings:
        time.sleep(3)
        supervised.signal(one, signal.SIGSTOP)
        wait_for("all at one", lambda: {*TRADES, *READINGS} <= pair.tables(two))
        old = {table: pair.tokens(table)[-1] for table in TRADES}
        supervised.signal(one, signal.SIGCONT)
        pair.wait_split(one, two)
        new = {table: pair.tokens(table)[-1] for table in TRADES}
        assert all(new[table] > old[table] for table in TRADES), "it came back under new ones"
        time.sleep(3)
    drained(home, feed, "NAP")
    check_exact(home, feed, "NAP")
    readings.check(home)
    _fenced(pair)
    for process in (one, two):
        assert supervised.stop(process) == 0
