"""A stack of its own with a changing table under traffic, and an operator's means."""

from __future__ import annotations

import datetime as dt
import getpass
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from penstock.cli.asking import ask
from penstock.platform.stack import Stack
from penstock.reprocess.release import Releases
from penstock.reprocess.request import Request
from penstock.reprocess.stage import Stager
from penstock.runtime.registry import Registry
from penstock.settings import Settings
from tests.live import Feed, Supervised, started, wait_for

GOLD = "gold.stock_stats"


class World:
    """A stack of its own: what is promoted here must not be live in other tests."""

    def __init__(self, stack: Stack, project: Path, spark) -> None:
        self.settings = replace(stack.settings, project=project)
        self.supervised = Supervised(self.settings)
        self.registry = Registry(self.settings)
        self.registry.create()
        self.spark = spark
        self.live = self.settings.warehouse / "gold" / "stock_stats"
        self.module = project / "spark_jobs" / "gold" / "stock_stats.py"
        self.feed = Feed(stack.settings)
        self._stopping = threading.Event()

    def traffic(self) -> None:
        number = 0
        while not self._stopping.wait(0.05):
            number += 1
            late = dt.timedelta(seconds=20 if number % 20 == 0 else 0)
            at = dt.datetime.now(dt.UTC) - late
            self.feed.send(f"T{number % 7}", size=13 if number % 10 == 0 else number % 50, at=at)

    def start(self) -> None:
        self.supervised.start()
        threading.Thread(target=self.traffic, daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self.supervised.kill_all()

    def edit(self, *pairs: tuple[str, str]) -> None:
        text = self.module.read_text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        self.module.write_text(text)

    @property
    def releases(self) -> Releases:
        def through(table, verb, arguments):
            return ask(self.settings, table, verb, arguments, quiet=True)

        return Releases(self.settings, Registry(self.settings), through, getpass.getuser())

    def stage(self, **asked) -> str:
        stager = Stager(self.spark, self.settings, Registry(self.settings))
        release = stager.register(Request(GOLD, who="me", why="a test", **asked))
        stager.build(release, lambda table, progress: None)
        stager.wait_ready(release, seconds=300)
        return release

    def rows(self) -> pa.Table:
        return DeltaTable(str(self.live)).to_pyarrow_table()

    def count(self) -> int:
        return self.rows().num_rows if (self.live / "_delta_log").exists() else 0


@contextmanager
def changing(settings: Settings, project: Path, spark: Any) -> Iterator[World]:
    """A running world whose tables have some rows."""
    stack = Stack(settings)
    world = None
    try:
        started(stack)
        world = World(stack, project, spark)
        world.start()
        wait_for("windows", lambda: world.count() > 50)
        yield world
    finally:
        if world is not None:
            world.stop()
        stack.down()
