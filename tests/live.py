"""A supervisor on the real broker, registry and database, and the means to feed and read it."""

from __future__ import annotations

import datetime as dt
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from penstock.clients.producer import StreamProducer
from penstock.model.stream import Stream
from penstock.platform.stack import Stack
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.registry import Heartbeat, Registry
from penstock.settings import Settings

PROJECT = Path(__file__).resolve().parents[1]
LIGHT = ("postgres", "kafka", "registry")

# Bounds, not expectations: on a busy machine of two cores everything can take a while.
PATIENCE = 300.0

# Tables that only tests need: transforms that break on some rows their contract lets through.
FRAGILE = '''
from pyspark.sql import functions as F
from penstock.model import Rows, table
from spark_jobs.bronze.trades import TRADES


@table("silver.fragile", inputs={"trades": TRADES}, kind=Rows())
def fragile_silver(trades):
    """Breaks on every trade of size 13."""
    return trades.select("ticker", "size", (F.lit(100) / (F.col("size") - 13)).alias("ratio"))


@table("gold.fragile", inputs={"trades": "silver.trades"}, kind=Rows())
def fragile_gold(trades):
    """Breaks on every trade of size 17."""
    return trades.select("ticker", "size", (F.lit(100) / (F.col("size") - 17)).alias("ratio"))
'''


# Services and supervisors that tests start live for minutes and spend much of them in the JVM's
# compilers. The first of the two is enough: measured, the first minutes of a Spark session take
# 30 % less CPU with it, and code that is warm takes 20 % more.
QUICK_START = "-XX:TieredStopAtLevel=1"


def started(stack: Stack, services: Sequence[str] = LIGHT) -> Stack:
    """A stack with these services up; their virtual machines start quickly rather than run fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_START)
        stack.up(only=list(services))
    return stack


def wait_for(what: str, check: Callable[[], object], seconds: float = PATIENCE) -> object:
    """Poll until ``check`` returns something true; an error within counts as not yet.

    A check that takes long is made less often: what is waited for needs the core too.
    """
    deadline = time.monotonic() + seconds
    last: object = None
    while (began := time.monotonic()) < deadline:
        try:
            last = check()
            if last:
                return last
        except Exception as error:
            last = error
        time.sleep(max(0.25, 2 * (time.monotonic() - began)))
    raise AssertionError(f"{what} did not come within {seconds} s; last seen: {last!r}")


class Supervised:
    """Supervisor processes of one stack, started and stopped by their process group."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.registry = Registry(settings)
        self.processes: list[subprocess.Popen] = []

    def start(self, *, wait: bool = True) -> subprocess.Popen:
        log = self.settings.logs / f"supervisor-test-{len(self.processes)}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        env = self.settings.environment()
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "supervise"],
            env=env,
            cwd=PROJECT,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.processes.append(process)
        if wait:
            self.wait_running(process)
        return process

    def beat_of(self, process: subprocess.Popen) -> Heartbeat | None:
        beats = self.registry.heartbeats()
        return next((b for b in beats if b.pid == process.pid and b.age_seconds < 5), None)

    def wait_running(self, process: subprocess.Popen, seconds: float = PATIENCE) -> Heartbeat:
        def running() -> Heartbeat | None:
            beat = self.beat_of(process)
            up = beat is not None and beat.state == "running" and beat.streams
            return beat if up and all(s["state"] == "running" for s in beat.streams) else None

        try:
            return wait_for("a running supervisor", running, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._what_is_known_of(process)}") from None

    def _what_is_known_of(self, process: subprocess.Popen) -> str:
        """Streams as the last heartbeat has them, and the end of the log."""
        beats = [b for b in self.registry.heartbeats() if b.pid == process.pid]
        streams = [f"{s['stream']}: {s['state']}" for b in beats for s in b.streams]
        log = self.settings.logs / f"supervisor-test-{self.processes.index(process)}.log"
        tail = log.read_text(errors="replace").splitlines()[-40:]
        beat = f"exit code {process.poll()}, {[(b.state, b.age_seconds) for b in beats]}"
        return "\n".join([beat, *streams, *tail])

    def wait_state(self, process: subprocess.Popen, state: str) -> None:
        wait_for(f"a supervisor in state {state}", lambda: self.beat_of(process).state == state)

    def signal(self, process: subprocess.Popen, number: int) -> None:
        os.killpg(process.pid, number)

    def stop(self, process: subprocess.Popen) -> int:
        self.signal(process, signal.SIGCONT)
        process.terminate()
        return process.wait(120)

    def kill_all(self) -> None:
        for process in self.processes:
            group = [p for p in psutil.process_iter() if _in_group(p, process.pid)]
            for member in group:
                member.kill()
            process.wait(60)


def _in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group
    except (ProcessLookupError, psutil.Error):
        return False


@functools.cache
def _trades() -> Stream:
    catalog = Bundle(PROJECT, "spark_jobs").catalog()
    return next(s for s in catalog.streams.values() if s.topic == "trades")


class Feed:
    """Sends trades and remembers what the broker acknowledged, and where."""

    def __init__(self, settings: Settings) -> None:
        self.stream = _trades()
        self.producer = StreamProducer(settings, self.stream, user="demo-producer")
        self.acked: dict[tuple[int, int], dict] = {}

    def send(self, ticker: str, *, size: int = 1, price: str = "10.0000", at=None) -> None:
        row = {
            "ticker": ticker,
            "price": Decimal(price),
            "ask_price": Decimal(price) + 1,
            "size": size,
            "side": "buy",
        }
        when = at or dt.datetime.now(dt.UTC)
        when = when.replace(microsecond=when.microsecond // 1000 * 1000)
        self.producer.send(ticker, row, at=when, on_delivery=self._remember(row, when))

    def raw(self, value: bytes | None, *, at=None, key: bytes = b"k") -> None:
        self.producer.send_raw(
            key, value, at=at or dt.datetime.now(dt.UTC), on_delivery=self._remember({}, value)
        )

    def flush(self) -> None:
        assert self.producer.flush(60) == 0

    def _remember(self, row: dict, extra: object):
        def delivered(error, message) -> None:
            assert error is None, error
            self.acked[message.partition(), message.offset()] = {**row, "extra": extra}

        return delivered


_read: dict[Path, tuple[int, pa.Table]] = {}


def read(settings: Settings, layer: str, name: str) -> pa.Table:
    """What a reader sees now. Files are read when there is a newer version: tests ask often."""
    path = settings.warehouse / layer / name
    table = DeltaTable(str(path))
    version, rows = _read.get(path, (-1, None))
    if rows is None or version != table.version():
        rows = table.to_pyarrow_table()
        _read[path] = (table.version(), rows)
    return rows


def rows_where(settings: Settings, layer: str, name: str, **equals: object) -> list[dict]:
    found = read(settings, layer, name)
    for column, value in equals.items():
        found = found.filter(pc.equal(found[column], pa.scalar(value, found[column].type)))
    return found.to_pylist()
