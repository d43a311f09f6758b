"""What a group table costs: by groups touched, and by groups there are.

Usage: python tests/bench/groups.py [--rows 100] [--rounds 15]

Compares, interleaved on the same machine: batches that touch 10 and 100 groups, in tables of 1,000
and 10,000 groups of equal size. Prints medians of wall time and of CPU seconds (this process and
its JVM) and the two ratios that matter.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import functions as F

from penstock.model import Group, table
from penstock.settings import Settings
from penstock.spark.session import build_session
from penstock.testing import Kit

SCHEMA = pa.schema([("g", pa.int64()), ("member", pa.int64()), ("load", pa.int64())])


@table("gold.loads", inputs={"rows": "silver.rows"}, kind=Group(by=("g",)), keys=("g",))
def loads(rows):
    return rows.groupBy("g").agg(
        F.expr("percentile(load, 0.5)").alias("median"),
        F.countDistinct("member").alias("members"),
        F.sum("load").alias("total"),
    )


def cpu_seconds() -> float:
    me = psutil.Process()
    times = [p.cpu_times() for p in [me, *me.children(recursive=True)]]
    return sum(t.user + t.system for t in times)


def fill(kit: Kit, groups: int, rows: int, dice: random.Random) -> None:
    for start in range(0, groups, 500):
        some = range(start, min(start + 500, groups))
        listed = [(g, m, dice.randrange(1000)) for g in some for m in range(rows)]
        g, member, load = zip(*listed, strict=True)
        kit.feed(pa.table({"g": g, "member": member, "load": load}, schema=SCHEMA))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100, help="rows a group has")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        home = replace(Settings.load(), home=Path(folder) / "home")
        spark = build_session(home, "bench-groups")
        kits = {n: Kit(spark, Path(folder) / str(n), loads, SCHEMA) for n in (1_000, 10_000)}
        for size, kit in kits.items():
            fill(kit, size, options.rows, dice)
        wall: dict[tuple[int, int], list[float]] = {}
        cpu: dict[tuple[int, int], list[float]] = {}
        for round_ in range(options.rounds + 3):
            for size, kit in kits.items():
                for touched in (10, 100):
                    chosen = dice.sample(range(size), touched)
                    rows = [{"g": g, "member": dice.randrange(99), "load": 5} for g in chosen]
                    before, started = cpu_seconds(), time.perf_counter()
                    kit.feed(rows)
                    if round_ >= 3:  # the first ones warm up
                        wall.setdefault((size, touched), []).append(time.perf_counter() - started)
                        cpu.setdefault((size, touched), []).append(cpu_seconds() - before)
        for name, found in (("wall", wall), ("cpu", cpu)):
            print(f"{name}: groups touched median_s")
            middle = {key: statistics.median(times) for key, times in found.items()}
            for (size, touched), seconds in middle.items():
                print(f"  {size:>6} {touched:>4} {seconds:.3f}")
            print(f"  100 touched / 10 touched, 1,000 groups: {_ratio(middle, 1_000):.2f} (12)")
            print(f"  100 touched / 10 touched, 10,000 groups: {_ratio(middle, 10_000):.2f} (12)")
            for touched in (10, 100):
                more = middle[10_000, touched] / middle[1_000, touched]
                print(f"  10x the groups, {touched} touched: {more:.2f} (1.2)")
        spark.stop()


def _ratio(middle: dict[tuple[int, int], float], size: int) -> float:
    return middle[size, 100] / middle[size, 10]


if __name__ == "__main__":
    main()
