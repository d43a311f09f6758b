"""Few rows by Arrow, many by Spark: readers and followers cannot tell which wrote what."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.model import Rows, table
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path
from penstock.runtime.kinds import compute, rows
from penstock.testing import Kit

pytestmark = pytest.mark.spark

STAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("k", pa.string()), ("n", pa.int64()), ("d", pa.decimal128(12, 4)), ("at", STAMP)]
)
NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


@table("gold.echo", inputs={"t": "silver.t"}, kind=Rows())
def echo(t):
    """Everything but the nulls."""
    return t.where("n is not null")


def sample(size: int) -> pa.Table:
    moments = [NOON + dt.timedelta(microseconds=1_234_567 * i) for i in range(size)]
    return pa.table(
        {
            "k": [None if i % 11 == 0 else f"key{i % 7}" for i in range(size)],
            "n": [None if i % 13 == 0 else i for i in range(size)],
            "d": pa.array([Decimal(i) / 4 for i in range(size)], pa.decimal128(12, 4)),
            "at": pa.array(moments, STAMP),
        },
        schema=SCHEMA,
    )


def run(spark, folder, monkeypatch, *, bound: int) -> Kit:
    monkeypatch.setattr(rows, "BIG_BATCH_ROWS", bound)
    kit = Kit(spark, folder, echo, SCHEMA)
    kit.feed(sample(300))
    return kit


def test_both_ways_write_the_same_rows_types_and_statistics(spark, tmp_path, monkeypatch):
    small = run(spark, tmp_path / "small", monkeypatch, bound=1000)
    big = run(spark, tmp_path / "big", monkeypatch, bound=10)
    assert small.rows() == big.rows()
    assert len(small.rows()) == 300 - len(range(0, 300, 13))

    def described(kit: Kit) -> tuple:
        live = DeltaTable(str(live_path(kit.folder, kit.table.name)))
        adds = pa.table(live.get_add_actions(flatten=True)).to_pylist()
        ranges = {
            key: (min(a[f"min.{key}"] for a in adds), max(a[f"max.{key}"] for a in adds))
            for key in ("k", "n", "at")
        }
        counts = sum(a["num_records"] for a in adds), sum(a["null_count.k"] for a in adds)
        return ranges, counts, json.loads(live.schema().to_json())

    assert described(small) == described(big)
    one = live_path(big.folder, big.table.name)
    assert any("batch-" in path for path in DeltaTable(str(one)).file_uris()), "Spark wrote it"


def test_spark_reads_what_we_committed_by_path(spark, tmp_path, monkeypatch):
    kit = run(spark, tmp_path, monkeypatch, bound=10)
    kit.feed(sample(5))
    path = str(live_path(kit.folder, kit.table.name))
    assert spark.read.format("delta").load(path).count() == len(kit.rows())
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    assert feed.load(path).where("_change_type = 'insert'").count() == len(kit.rows())


# --- rows set apart ------------------------------------------------------------------------------
def test_a_crash_between_the_commit_and_quarantine_loses_and_doubles_no_bad_row(
    spark, tmp_path, jobs, monkeypatch
):
    trades = jobs.tables[TableName.parse("silver.trades")]
    stream = jobs.streams[TableName.parse("bronze.trades")]
    kit = Kit(spark, tmp_path, trades, stream=stream)

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(kit.follower.broken, "take_over", crash)
        with pytest.raises(RuntimeError, match="killed here"):
            kit.feed([b"junk", b"more junk"])
    # more rows arrive before the restart
    kit.feed([b"junk again"], follow=False)
    kit.restart()
    kit.advance()
    assert sorted(row["offset"] for row in kit.quarantined()) == [0, 1, 2]
    assert kit.outcomes() == {"quarantined": 3}
    assert kit.follower.behind == 0


def test_a_crash_before_the_commit_leaves_nothing_behind(spark, tmp_path, jobs, monkeypatch):
    trades = jobs.tables[TableName.parse("silver.trades")]
    stream = jobs.streams[TableName.parse("bronze.trades")]
    kit = Kit(spark, tmp_path, trades, stream=stream)

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(kit.follower.writer, "commit", crash)
        with pytest.raises(RuntimeError, match="killed here"):
            kit.feed([b"junk"])
    kit.restart()
    assert kit.quarantined() == []
    kit.advance()
    assert [row["offset"] for row in kit.quarantined()] == [0]


def test_what_no_single_row_explains_parks_the_table(spark):
    from penstock.errors import TransformError

    def attempt(some: pa.Table):
        frame = spark.createDataFrame(some)
        return frame.selectExpr("assert_true(count(*) over () < 3) as fine").toArrow()

    with pytest.raises(TransformError, match="not because of any single row"):
        compute.isolate(attempt, sample(4), "gold.echo")
