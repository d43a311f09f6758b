"""What an export costs after a swap that changed one row of a hundred.

Usage: python tests/bench/export.py [--rows 1000000] [--to duckdb clickhouse] [--rounds 3]

A live table of sensor windows (eight columns, ten files) is exported whole; then a revision in
which one row of a hundred has other values is swapped in, and the export follows; so often, back
and forth. Prints one line of JSON per export: rows written, their share of the table, seconds of
the whole run (opening, change feed, applying, checking every row against Delta, publishing), bytes.
Fails unless at most two percent are written.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.export.run import export_tables
from penstock.export.targets import TARGETS, open_target
from penstock.lineage.ledger import usage
from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.swap import difference, swap
from penstock.runtime.delta.writer import RevisionWriter
from penstock.settings import Settings

SCHEMA = pa.schema(
    [
        ("sensor_id", pa.string()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        ("min_value", pa.float64()),
        ("max_value", pa.float64()),
        ("mean_value", pa.float64()),
        ("p95_value", pa.float64()),
        ("readings", pa.int64()),
    ]
)
NAME = TableName.parse("gold.sensor_5m")
_FIVE_MINUTES = 300_000_000


def filled(warehouse: Path, revision: str, rows: int, *, live: bool) -> RevisionWriter:
    writer = RevisionWriter(warehouse, NAME, revision, SCHEMA, token=1, live=live)
    chance, size, actions = np.random.default_rng(7), rows // 10, []
    for first in range(0, rows, size):
        n = np.arange(first, first + size)
        starts = 1_767_225_600_000_000 + (n // 500) * _FIVE_MINUTES
        values = chance.normal(20, 5, (4, size))
        if not live:
            values[2] = np.where(n % 100 == 0, values[2] + 1, values[2])
        table = pa.table(
            [
                pa.array([f"sensor-{i % 500:03d}" for i in n]),
                pa.array(starts, pa.timestamp("us", tz="UTC")),
                pa.array(starts + _FIVE_MINUTES, pa.timestamp("us", tz="UTC")),
                *(pa.array(column) for column in values),
                pa.array(n % 30 + 1),
            ],
            schema=SCHEMA,
        )
        actions += write_arrow(table, writer.path)
    writer.commit(actions, {"bench": 1})
    return writer


def exchanged(old: RevisionWriter, new: RevisionWriter, scratch: Path) -> None:
    change = difference(old, old.log.version, new, new.log.version, scratch)
    assert old.live is not None
    swap(old.live, new, change, ("sensor_id", "window_start"), {"operation": "PENSTOCK PROMOTE"})
    new.show(old.hide())


def measured(settings: Settings, target: str, *, verify: bool) -> float:
    began = time.perf_counter()
    report = export_tables(settings, [str(NAME)], open_target(settings, target), verify=verify)
    seconds = time.perf_counter() - began
    (outcome,) = report.tables
    assert outcome.rows, outcome
    share = outcome.rows_written / outcome.rows
    held = usage(settings.home / "export" / target)
    print(
        json.dumps(
            {
                "target": target,
                "mode": outcome.mode,
                "rows": outcome.rows,
                "rows_written": outcome.rows_written,
                "share": round(share, 4),
                "seconds": round(seconds, 2),
                "bytes": held.bytes,
                "verified": outcome.verified,
                "reason": outcome.reason,
            }
        ),
        flush=True,
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--to", nargs="*", choices=TARGETS, default=["duckdb", "clickhouse"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(project=Path(place), home=Path(place))
        old = filled(settings.warehouse, "old", options.rows, live=True)
        new = filled(settings.warehouse, "new", options.rows, live=False)
        print(json.dumps({"delta_bytes": usage(old.path).bytes, "rows": options.rows}), flush=True)
        keys = list(SCHEMA.names[:2])
        declared = {"name": str(NAME), "kind": "window", "keys": keys, "revision": "old"}
        settings.manifest.write_text(json.dumps({"tables": [declared]}))
        for target in options.to:
            measured(settings, target, verify=options.verify)
        for _ in range(options.rounds):
            exchanged(old, new, settings.home / "scratch")
            old, new = new, old
            for target in options.to:
                share = measured(settings, target, verify=options.verify)
                assert target == "parquet" or share <= 0.02, share


if __name__ == "__main__":
    main()
