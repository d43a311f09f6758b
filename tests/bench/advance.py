"""What one small batch costs each of our tables, one after the other, with nothing else running.

Usage: python tests/bench/advance.py [--rounds 60] [--warm 40] [--rate 20]

Every round stands for one second of demo traffic: its rows go into bronze, then every table takes
in what is new, in order of dependency. Prints, per table, the median wall time and the mean CPU
time of a batch, told apart by this process, Spark's JVM and its Python workers. The users table is
fed by Postgres in real life and stays empty here.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil

from penstock.model.names import TableName
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import late, outcomes, quarantine
from penstock.runtime.kinds.build import arrow_schema, changes, empty_inputs, follower, output_frame
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.settings import Settings
from penstock.spark.session import build_session
from penstock.testing.feeds import FedStream
from spark_jobs.demo.event import Event, Shares
from spark_jobs.demo.sources import STREAMS, merged


class Bench:
    """All tables of the project, without a service."""

    def __init__(self, folder: Path) -> None:
        settings = Settings.load()
        self.folder = folder
        self.session = build_session(settings, "bench")
        self.catalog = Bundle(settings.project, settings.jobs).catalog()
        self.feeds = {
            name: FedStream(folder, stream, 1) for name, stream in self.catalog.streams.items()
        }
        self.writers: dict[TableName, RevisionWriter] = {}
        self.followers: dict[TableName, Follower] = {}
        waiting = dict(self.catalog.tables)
        while waiting:
            for name, table in list(waiting.items()):
                if not any(given in waiting for given in table.inputs.values()):
                    self._open(name)
                    del waiting[name]

    def _open(self, name: TableName) -> None:
        table = self.catalog.tables[name]
        stream = self.catalog.stream_of(table)

        def given(source: str):
            return stream or self.writers[TableName.parse(source)].schema

        def writer(own: TableName, schema):
            return RevisionWriter(self.folder, own, "r", schema, token=1, live=True)

        frame = output_frame(table, empty_inputs(self.session, table, given))
        context = TableContext(
            self.session,
            table,
            "r",
            writer(name, arrow_schema(frame)),
            writer(name.quarantine, quarantine.SCHEMA),
            writer(name.late, late.SCHEMA),
            writer(name.outcomes, outcomes.SCHEMA),
            self.folder / "stores" / str(name),
        )
        inputs = {}
        for argument, source in table.inputs.items():
            if source in self.feeds:
                inputs[argument] = Input(argument, str(source), self.feeds[source].source)
            else:
                shown = changes(self.catalog, self.catalog.tables[source])
                inputs[argument] = Input(argument, str(source), self.writers[source], shown)
        self.writers[name] = context.writer
        known = self.feeds[stream.name] if stream is not None else None  # knows its writers
        self.followers[name] = follower(context, inputs, stream, known)

    def feed(self, events: list[Event], at: dt.datetime) -> None:
        rows = defaultdict(list)
        for event in events:
            fine = event.row is None or "_at" in event.row
            rows[event.stream].append(event.raw if fine else {**event.row, "_at": event.at})
        for name, feed in self.feeds.items():
            if rows[name.name]:
                feed.send(rows[name.name], at)


class Clock:
    """CPU seconds so far: this process, the JVM, Python workers."""

    def __init__(self) -> None:
        self.me = psutil.Process()
        self.java = next(p for p in self.me.children() if "java" in p.name())

    def read(self) -> tuple[float, float, float, float]:
        workers = self.java.children(recursive=True)
        return (time.perf_counter(), _cpu(self.me), _cpu(self.java), sum(map(_cpu, workers)))


def _cpu(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return spent.user + spent.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--warm", type=int, default=40)
    parser.add_argument("--rate", type=float, default=20.0, help="trades a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        run(bench, options.rounds, options.warm, options.rate)


def run(bench: Bench, rounds: int, warm: int, rate: float) -> None:
    now = dt.datetime.now(dt.UTC)
    clock, spent = Clock(), defaultdict(list)
    shares = Shares(late=0.01, duplicate=0.005, bad=0.0)
    events = merged(STREAMS, rate, 7, shares, lambda: now)
    pending: list[Event] = []
    for second in range(warm + rounds):
        now += dt.timedelta(seconds=1)
        for due, event in events:
            pending.append(event)
            if due >= second:
                break
        bench.feed(pending, now)
        pending = []
        for name, follower_ in bench.followers.items():
            before = clock.read()
            moved = follower_.advance()
            if moved and second >= warm:
                spent[str(name)].append([b - a for a, b in zip(before, clock.read(), strict=True)])
    head = ("table", "batches", "wall ms", "python ms", "jvm ms", "workers ms")
    print("{:28}{:>8}{:>10}{:>10}{:>8}{:>11}".format(*head))
    total = [0.0] * 4
    for name, batches in spent.items():
        columns = list(zip(*batches, strict=True))
        wall, *cpu = statistics.median(columns[0]), *(statistics.mean(c) for c in columns[1:])
        figures = [1000 * value for value in (wall, *cpu)]
        total = [a + sum(c) * 1000 / rounds for a, c in zip(total, columns, strict=True)]
        print("{:28}{:8}{:10.0f}{:10.0f}{:8.0f}{:11.0f}".format(name, len(batches), *figures))
    print("{:28}{:8}{:10.0f}{:10.0f}{:8.0f}{:11.0f}".format("a round of all", rounds, *total))


if __name__ == "__main__":
    main()
