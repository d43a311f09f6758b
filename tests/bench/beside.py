"""What a build costs those who read live: latency with a throttled build beside it, and without.

Usage: python tests/bench/beside.py [--rate 50] [--seconds 60] [--rounds 3] [--share 0.5]

Needs a running stack. The build is gold.sensor_5m over synthetic readings, in a Spark application
of its own, niced and throttled as `penstock stage --share` does it, over and over for as long as it
is measured. Rounds without and with it alternate; latency is that of ``latency.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from latency import measure
from rebuild import PROJECT, SCHEMA, fill

from penstock.model.names import TableName
from penstock.reprocess.history import HistoryBuilder, Pinned, Progress
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.kinds.build import arrow_schema, output_frame
from penstock.settings import Settings
from penstock.spark.session import build_session

READINGS = TableName.parse("silver.readings")


def build_for_ever(folder: Path, share: float) -> None:
    """The job; says on standard output when it is under way."""
    table = Bundle(PROJECT, "spark_jobs").catalog().tables[TableName.parse("gold.sensor_5m")]
    settings = replace(Settings.load(), home=folder / "home")
    spark = build_session(settings, "bench-beside", memory="2g", quiet=True, modest=True)
    source = RevisionWriter(folder, READINGS, "in", SCHEMA, token=2, live=False)
    empty = {"readings": spark.createDataFrame(SCHEMA.empty_table())}
    schema = arrow_schema(output_frame(table, empty))
    pinned = Pinned(str(READINGS), source.path, SCHEMA, source.log.version)
    began = [time.monotonic()]

    def rest(progress: Progress) -> bool:
        spent = time.monotonic() - began[0]
        time.sleep(spent / share - spent)
        began[0] = time.monotonic()
        return True

    print("building", flush=True)
    for number in range(1_000_000):
        into = folder / f"{os.getpid()}-{number}"
        HistoryBuilder(
            spark, table, into=into / "table", beside=into / "outcomes", schema=schema,
            inputs={"readings": pinned}, piece_rows=1_000_000,
        ).run(rest)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        build_for_ever(Path(options.job), options.share)
        return
    found: dict[str, list[dict]] = {"without": [], "beside a build": []}
    with tempfile.TemporaryDirectory() as place:
        fill(RevisionWriter(Path(place), READINGS, "in", SCHEMA, token=1, live=False), 5_000_000)
        for _ in range(options.rounds):
            found["without"].append(measure(options.rate, options.seconds, 5))
            command = [sys.executable, __file__, "--job", place, "--share", str(options.share)]
            job = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            try:
                assert job.stdout is not None
                assert job.stdout.readline().strip() == "building"
                time.sleep(5)
                found["beside a build"].append(measure(options.rate, options.seconds, 5))
            finally:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    for name, rounds in found.items():
        told = {q: statistics.median(r[q] for r in rounds) for q in ("p50", "p90", "p99", "max")}
        print(json.dumps({"case": name, "rate": options.rate, "rounds": len(rounds), **told}))


if __name__ == "__main__":
    main()
