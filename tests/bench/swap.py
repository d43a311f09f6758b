"""What a swap costs: by rows, and by files.

Usage: python tests/bench/swap.py [--rows 100000 1000000 10000000] [--files 10 1000 10000]

Two revisions of a table that differ in one row of a hundred, swapped back and forth. Prints, as
medians: how long the difference takes (both revisions go on meanwhile), and how long live stands
still: bringing the difference up to date after a hundred more changed rows, and the commit itself.
Rows are varied at ten files, files at a million rows. ``--disk`` reprocesses a table of a million
rows five times, each time keeping the last revision warm and dropping the one before, and prints
the bytes on disk against one revision alone.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.model.names import TableName
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.swap import brought_up, difference, swap
from penstock.runtime.delta.writer import RevisionWriter

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("w", pa.string())])
NAME = TableName.parse("gold.swapped")


def filled(folder: Path, revision: str, rows: int, files: int, *, live: bool) -> RevisionWriter:
    writer = RevisionWriter(folder, NAME, revision, SCHEMA, token=1, live=live)
    size, actions = rows // files, []
    for start in range(0, rows, size):
        keys = np.arange(start, start + size)
        values = keys * 1.5
        if not live:
            values = np.where(keys % 100 == 0, values + 1, values)
        words = pa.array([f"w{n % 1000}" for n in keys])
        table = pa.table([pa.array(keys), pa.array(values), words], schema=SCHEMA)
        actions += write_arrow(table, writer.path)
    writer.commit(actions, {"test": 1})
    return writer


def more(writer: RevisionWriter, rows: int) -> None:
    """A hundred rows that come after the difference was computed."""
    keys = np.arange(rows, rows + 100)
    table = pa.table([pa.array(keys), pa.array(keys * 1.0), pa.array(["x"] * 100)], schema=SCHEMA)
    writer.commit(write_arrow(table, writer.path), {"test": 2}, change=Change(table))


def measure(rows: int, files: int, rounds: int) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        old = filled(folder, "a", rows, files, live=True)
        new = filled(folder, "b", rows, files, live=False)
        taken: list[tuple[float, float, float]] = []
        for number in range(rounds):
            began = time.perf_counter()
            versions = old.log.version, new.log.version
            known = difference(old, versions[0], new, versions[1], folder / "scratch")
            prepared = time.perf_counter()
            for writer in (old, new):
                more(writer, rows + 100 * number)
            standing = time.perf_counter()
            net = brought_up(known, old, versions[0], new, versions[1])
            ready = time.perf_counter()
            assert old.live is not None
            swap(old.live, new, net, ("k",), {"operation": "PENSTOCK PROMOTE"})
            done = time.perf_counter()
            new.show(old.hide())
            old, new = new, old
            taken.append((prepared - began, ready - standing, done - ready))
    columns = list(zip(*taken, strict=True))
    return tuple(statistics.median(column) for column in columns)  # type: ignore[return-value]


def disk(rows: int = 1_000_000) -> None:
    def held(folder: Path) -> int:
        return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        live = filled(folder, "r0", rows, 10, live=True)
        alone = held(folder)
        warm = None
        for number in range(1, 6):
            new = filled(folder, f"r{number}", rows, 10, live=False)
            versions = live.log.version, new.log.version
            change = difference(live, versions[0], new, versions[1], folder / "scratch")
            assert live.live is not None
            swap(live.live, new, change, ("k",), {"operation": "PENSTOCK PROMOTE"})
            new.show(live.hide())
            if warm is not None:
                shutil.rmtree(warm.path)
            warm, live = live, new
        both = held(folder)
        assert warm is not None
        shutil.rmtree(warm.path)
        print(f"one revision {alone:,} bytes; after five reprocessings with one warm {both:,} "
              f"({both / alone:.2f}); after retention {held(folder):,} "
              f"({held(folder) / alone:.2f})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--files", type=int, nargs="*", default=[10, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk", action="store_true")
    options = parser.parse_args()
    if options.disk:
        disk()
        return
    cases = [(rows, 10) for rows in options.rows]
    cases += [(1_000_000, files) for files in options.files if files != 10]
    print(f"{'rows':>12} {'files':>7} {'difference, s':>14} {'bring up, s':>12} {'commit, s':>10}")
    for rows, files in cases:
        prepared, brought, committed = measure(rows, files, options.rounds)
        print(f"{rows:>12,} {files:>7,} {prepared:>14.3f} {brought:>12.3f} {committed:>10.3f}")


if __name__ == "__main__":
    main()
