"""How fast a history is built: against Spark that only scans, and DuckDB that does the same SQL.

Usage: python tests/bench/rebuild.py [--rows 20000000] [--rounds 3]

gold.sensor_5m over readings kept in files of a million rows. Interleaved, medians: the whole build
(read, windows, percentiles, outcomes, files written); the transform alone, by Spark, to nowhere;
Spark reading the same columns and summing them; DuckDB computing the same windows and writing them
to a Parquet file. The build's result is compared with DuckDB's, row by row, before its time counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import functions as F

from penstock.model.names import TableName
from penstock.reprocess.history import HistoryBuilder, Pinned
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.kinds.batch import recompute
from penstock.runtime.kinds.build import arrow_schema, output_frame
from penstock.settings import Settings
from penstock.spark.session import build_session

PROJECT = Path(__file__).resolve().parents[2]
STAMP = pa.timestamp("us", tz="UTC")
START = 1_760_000_000_000_000 // 300_000_000 * 300_000_000
SENSORS = 50
SCHEMA = pa.schema(
    [
        ("sensor_id", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("calibration", pa.bool_()),
        ("measured_at", STAMP),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
QUERY = """
select sensor_id, to_timestamp(w / 1e6) as window_start, min(value) as min_value,
    max(value) as max_value, quantile_cont(value, 0.95) as p95_value, count(*) as readings
from (select *, (epoch_us(measured_at) // 300000000) * 300000000 as w from read_parquet($1))
group by sensor_id, w
"""


def fill(writer: RevisionWriter, rows: int) -> None:
    dice, size = np.random.default_rng(5), 1_000_000
    for start in range(0, rows, size):
        count = min(size, rows - start)
        times = START + np.arange(start, start + count) * 20_000
        columns = [
            pa.array([f"s{n:02d}" for n in dice.integers(0, SENSORS, count)]),
            pa.array(dice.integers(-4000, 9000, count) / 100.0),
            pa.array(["celsius"] * count),
            pa.array(dice.random(count) < 0.01),
            pa.array(times, pa.int64()).cast(STAMP),
            pa.array(np.zeros(count), pa.int32()),
            pa.array(np.arange(start, start + count), pa.int64()),
        ]
        writer.commit(write_arrow(pa.table(columns, schema=SCHEMA), writer.path), {"test": start})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table = Bundle(PROJECT, "spark_jobs").catalog().tables[TableName.parse("gold.sensor_5m")]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        settings = replace(Settings.load(), home=folder / "home")
        spark = build_session(settings, "bench-rebuild", memory="4g", quiet=True)
        source = RevisionWriter(
            folder, TableName.parse("silver.readings"), "in", SCHEMA, token=1, live=False
        )
        fill(source, options.rows)
        files = [str(source.path / f) for f in _files(source.path)]
        empty = {"readings": spark.createDataFrame(SCHEMA.empty_table())}
        schema = arrow_schema(output_frame(table, empty))
        times: dict[str, list[float]] = {"build": [], "transform": [], "scan": [], "duckdb": []}
        for number in range(options.rounds + 1):
            taken = _round(spark, table, schema, source, files, folder / str(number))
            if number:  # the first warms up
                for name, seconds in taken.items():
                    times[name].append(seconds)
        spark.stop()
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:<8} {seconds:8.2f} s {options.rows / seconds:14,.0f} rows/s")
    print(f"build / transform {medians['transform'] / medians['build']:.2f} of its rate")
    print(f"build / scan   {medians['scan'] / medians['build']:.2f} of its rate")
    print(f"build / duckdb {medians['duckdb'] / medians['build']:.2f} of its rate")


def _round(spark, table, schema, source, files, place) -> dict[str, float]:
    taken = {}
    began = time.perf_counter()
    pinned = Pinned("silver.readings", source.path, SCHEMA, source.log.version)
    builder = HistoryBuilder(
        spark,
        table,
        into=place / "table",
        beside=place / "outcomes",
        schema=schema,
        inputs={"readings": pinned},
    )
    builder.run(lambda progress: True)
    taken["build"] = time.perf_counter() - began
    began = time.perf_counter()
    frame = spark.read.parquet(*files)
    recompute(table, {"readings": frame}).write.format("noop").mode("overwrite").save()
    taken["transform"] = time.perf_counter() - began
    began = time.perf_counter()
    frame = spark.read.parquet(*files)
    frame.agg(
        F.sum("value"), F.sum(F.unix_micros("measured_at") % 1000), F.sum(F.length("sensor_id"))
    ).collect()  # fmt: skip
    taken["scan"] = time.perf_counter() - began
    began = time.perf_counter()
    duck = duckdb.connect(config={"threads": 2})
    duck.execute("set timezone = 'UTC'")
    rows = duck.execute(QUERY, [files]).to_arrow_table()
    pq.write_table(rows, place / "duckdb.parquet")
    taken["duckdb"] = time.perf_counter() - began
    _same(builder, rows)
    return taken


def _same(builder: HistoryBuilder, other: pa.Table) -> None:
    names = ["sensor_id", "window_start", "min_value", "max_value", "readings"]
    recipe = builder.shop.recipe
    adds = [a for n in range(recipe.pieces) for a in builder.shop.piece(recipe, n).adds]
    mine = pa.concat_tables(
        [pq.read_table(builder.path / a["add"]["path"], columns=names) for a in adds]
    )
    last = max(mine["window_start"].to_pylist())
    ours = sorted(map(repr, mine.to_pylist()))
    theirs = sorted(
        repr(row) for row in other.select(names).to_pylist() if row["window_start"] <= last
    )
    assert ours == theirs, (ours[:1], theirs[:1], len(ours), len(theirs))


def _files(path: Path) -> list[str]:
    return [uri.rpartition("/")[2] for uri in DeltaTable(str(path)).file_uris()]


if __name__ == "__main__":
    main()
