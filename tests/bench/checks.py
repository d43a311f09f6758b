"""What the checks of single rows cost inside the stream: a contract's rules on and off, in one run.

Usage: python tests/bench/checks.py [--rows 20000] [--rounds 30] [--warm 8] [--big]

Two copies of silver.trades take in the same records batch by batch: decode, rules, transform,
commit. One has the contract as declared, the other the same contract without rules. They take
turns, each going first every other round, so that a slow moment of the machine meets both. Prints,
for each, the median throughput and the mean CPU seconds of this process and of Spark's JVM, and
what the rules cost of both. ``--big`` makes batches so big that Spark's own writers take them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import statistics
import tempfile
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psutil

from penstock.clients.encode import encoder
from penstock.model.definition import Table
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.files import BIG_BATCH_ROWS
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import late, outcomes, quarantine
from penstock.runtime.kinds.build import arrow_schema, empty_inputs, follower, output_frame
from penstock.runtime.kinds.follow import Input, TableContext
from penstock.settings import Settings
from penstock.spark.session import build_session
from penstock.testing.feeds import FedStream

NAME = TableName.parse("silver.trades")


class Copy:
    """One copy of the table, its topic and what it has spent."""

    def __init__(self, session, folder: Path, table: Table, stream: Stream) -> None:
        self.feed = FedStream(folder, stream, 1)
        self.seconds: list[float] = []
        self.cpu: list[float] = []

        def writer(own: TableName, schema):
            return RevisionWriter(folder, own, "r", schema, token=1, live=True)

        frame = output_frame(table, empty_inputs(session, table, lambda source: stream))
        context = TableContext(
            session,
            table,
            "r",
            writer(NAME, arrow_schema(frame)),
            writer(NAME.quarantine, quarantine.SCHEMA),
            writer(NAME.late, late.SCHEMA),
            writer(NAME.outcomes, outcomes.SCHEMA),
            folder / "stores",
        )
        inputs = {
            argument: Input(argument, str(source), self.feed.source)
            for argument, source in table.inputs.items()
        }
        self.follower = follower(context, inputs, stream, self.feed)

    def take(self, values: list[bytes], at: dt.datetime, clock: Clock, *, counted: bool) -> None:
        self.feed.send(values, at)
        wall, cpu = time.perf_counter(), clock.read()
        while self.follower.advance():
            pass
        if counted:
            self.seconds.append(time.perf_counter() - wall)
            self.cpu.append(clock.read() - cpu)


class Clock:
    """CPU seconds so far, of this process and the JVM."""

    def __init__(self) -> None:
        me = psutil.Process()
        self.processes = [me, next(p for p in me.children() if "java" in p.name())]

    def read(self) -> float:
        return sum(sum(p.cpu_times()[:2]) for p in self.processes)


def trades(stream: Stream, count: int) -> list[bytes]:
    dice, encode = random.Random(3), encoder(stream.contract, 1)
    return [
        encode(
            {
                "ticker": f"T{dice.randrange(500)}",
                "price": (price := Decimal(dice.randrange(1, 10**8)) / 10**4),
                "ask_price": price + Decimal("0.01"),
                "size": dice.randrange(1, 10_000),
                "side": dice.choice(("buy", "sell")),
            }
        )
        for _ in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--big", action="store_true")
    options = parser.parse_args()
    rows = max(options.rows, 2 * BIG_BATCH_ROWS) if options.big else options.rows
    settings = Settings.load()
    catalog = Bundle(settings.project, settings.jobs).catalog()
    table = catalog.tables[NAME]
    stream = catalog.stream_of(table)
    bare = replace(stream, contract=replace(stream.contract, rules=()))
    values = trades(stream, rows)
    session = build_session(settings, "bench-checks", quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        copies = {
            "rules on": Copy(session, Path(folder) / "on", table, stream),
            "rules off": Copy(session, Path(folder) / "off", table, bare),
        }
        clock = Clock()
        for number in range(options.warm + options.rounds):
            order = list(copies.values())[:: 1 if number % 2 else -1]
            for copy in order:
                copy.take(values, dt.datetime.now(dt.UTC), clock, counted=number >= options.warm)
        report(copies, rows)


def report(copies: dict[str, Copy], rows: int) -> None:
    print(f"{rows:,} rows a batch, {len(copies['rules on'].seconds)} batches each")
    rate, spent = {}, {}
    for name, copy in copies.items():
        rate[name] = rows / statistics.median(copy.seconds)
        spent[name] = statistics.mean(copy.cpu)  # the system counts in hundredths: no median
        print(f"{name:10} {rate[name]:10,.0f} rows/s   {spent[name]:.3f} CPU s a batch")
    on, off = copies["rules on"], copies["rules off"]
    ratio = statistics.median(a / b for a, b in zip(on.seconds, off.seconds, strict=True))
    print(
        f"rules cost {100 * (1 - rate['rules on'] / rate['rules off']):.1f} % of throughput, "
        f"{100 * (spent['rules on'] / spent['rules off'] - 1):.1f} % more CPU; "
        f"median of pairs {100 * (ratio - 1):.1f} % longer"
    )


if __name__ == "__main__":
    main()
