"""What the gate costs: the suite of silver.trades over a table of a million rows.

Usage: python tests/bench/quality.py [--rows 1000000] [--rounds 3]

Writes the table, then runs `penstock quality silver.trades` as an operator or a DAG would, in a
process of its own without a JVM, and prints of each run: the wall time of the process, the part
of it that is checking (the rest is Python's imports, Great Expectations' for the most part), its
CPU seconds, and the most memory it had.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter

PROJECT = Path(__file__).resolve().parents[2]
TABLE = "silver.trades"
SCHEMA = pa.schema(
    [("ticker", pa.string()), ("price", pa.decimal128(12, 4)), ("ask_price", pa.decimal128(12, 4)),
     ("size", pa.int32()), ("side", pa.string()), ("notional", pa.decimal128(24, 4)),
     ("traded_at", pa.timestamp("us", tz="UTC")), ("partition", pa.int32()),
     ("offset", pa.int64())]
)  # fmt: skip


def fill(home: Path, rows: int) -> None:
    writer = RevisionWriter(
        home / "warehouse", TableName.parse(TABLE), "bench", SCHEMA, token=1, live=True
    )
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for start in range(0, rows, 250_000):
            made = duck.sql(
                """select 'T' || (i % 500) as ticker, p as price, p + 1 as ask_price, s as size,
                          case when i % 2 = 0 then 'buy' else 'sell' end as side,
                          cast(cast(p as decimal(28, 4)) * s as decimal(24, 4)) as notional,
                          timestamptz '2026-11-01 00:00:00Z' + to_milliseconds(i) as traded_at,
                          0 as partition, i as "offset"
                   from (select i, cast(i % 100000 / 100 + 0.01 as decimal(12, 4)) as p,
                                cast(i % 1000 + 1 as integer) as s
                         from range($1, $2) t(i))""",
                params=[start, min(rows, start + 250_000)],
            ).to_arrow_table()
            writer.commit(write_arrow(made.cast(SCHEMA), writer.path), {"bench": start})
    entry = {"name": TABLE, "layer": "silver", "kind": "rows", "revision": "bench", "keys": []}
    (home / "manifest.json").write_text(json.dumps({"tables": [entry], "broken": []}))


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        fill(home, options.rows)
        env = {**os.environ, "PENSTOCK_HOME": str(home), "PENSTOCK_PROJECT": str(PROJECT)}
        walls, checks = [], []
        for _ in range(options.rounds):
            started, before = time.perf_counter(), spent()
            done = subprocess.run(
                [sys.executable, "-m", "penstock.cli", "quality", TABLE, "--no-hold", "--json"],
                env=env, cwd=PROJECT, capture_output=True, text=True, check=True,
            )  # fmt: skip
            walls.append(time.perf_counter() - started)
            (told,) = json.loads(done.stdout)["tables"]
            checks.append(told["seconds"])
            assert told["rows"] == options.rows
            print(
                f"{told['rows']:,} rows, {len(told['results'])} expectations: "
                f"{walls[-1]:.1f} s in all, {checks[-1]:.2f} s of it checking; "
                f"{spent() - before:.1f} CPU s"
            )
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(
            f"medians: {statistics.median(walls):.1f} s in all, "
            f"{statistics.median(checks):.2f} s checking; most memory {most:,.0f} MB"
        )


if __name__ == "__main__":
    main()
