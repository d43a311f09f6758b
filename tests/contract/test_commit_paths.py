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
from penstock.runtime import compute, ingest, rows
from penstock.runtime.bronze import BronzeWriter, bronze_schema
from penstock.runtime.follow import TableContext
from penstock.runtime.ingest import Ingest
from penstock.runtime.kafka import Topic
from penstock.runtime.quarantine import SCHEMA as QUARANTINE
from penstock.runtime.rows import ContractFollower
from penstock.runtime.writer import RevisionWriter, live_path
from penstock.testing import Harness

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


def run(spark, folder, monkeypatch, *, bound: int) -> Harness:
    monkeypatch.setattr(rows, "BIG_BATCH_ROWS", bound)
    harness = Harness(spark, folder, echo, SCHEMA)
    harness.feed(sample(300))
    return harness


def test_both_ways_write_the_same_rows_types_and_statistics(spark, tmp_path, monkeypatch):
    small = run(spark, tmp_path / "small", monkeypatch, bound=1000)
    big = run(spark, tmp_path / "big", monkeypatch, bound=10)
    assert small.rows() == big.rows()
    assert len(small.rows()) == 300 - len(range(0, 300, 13))

    def described(harness: Harness) -> tuple:
        live = DeltaTable(str(live_path(harness.folder, harness.table.name)))
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
    harness = run(spark, tmp_path, monkeypatch, bound=10)
    harness.feed(sample(5))
    path = str(live_path(harness.folder, harness.table.name))
    assert spark.read.format("delta").load(path).count() == len(harness.rows())
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    assert feed.load(path).where("_change_type = 'insert'").count() == len(harness.rows())


# --- ingest: a batch handed over twice ----------------------------------------------------------
def records(spark, first: int, last: int):
    listed = [
        (b"k", bytes([0]), [], "t", offset % 2, offset // 2, NOON, 0)
        for offset in range(first, last)
    ]
    kinds = (
        "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, "
        "partition int, offset bigint, timestamp timestamp, timestamp_type int"
    )
    return spark.createDataFrame(listed, kinds)


@pytest.fixture
def topic_in(spark, tmp_path, jobs):
    stream = next(iter(jobs.streams.values()))
    topic = Topic("t", "id-1", "cluster", {0: 0, 1: 0}, {0: 99, 1: 99})

    def open_ingest(token: int, topic: Topic = topic) -> Ingest:
        bronze = BronzeWriter(tmp_path, TableName("bronze", "t"), token=token)
        return Ingest(spark, stream, topic, bronze, lambda: None)

    return open_ingest


def places(tmp_path) -> list[tuple]:
    found = DeltaTable(str(tmp_path / "bronze" / "t")).to_pyarrow_table().to_pylist()
    return sorted((r["topic_id"], r["partition"], r["offset"]) for r in found)


@pytest.mark.parametrize("bound", [1000, 2], ids=["by Arrow", "by Spark"])
def test_a_batch_that_comes_again_writes_nothing_twice(
    spark, tmp_path, topic_in, monkeypatch, bound
):
    monkeypatch.setattr(ingest, "BIG_BATCH_ROWS", bound)
    first = topic_in(1)
    first.take(records(spark, 0, 10), {0: 5, 1: 5})
    again = topic_in(2)  # as after a crash: a new process, no checkpoint
    assert again.offsets == {0: 5, 1: 5}
    again.offsets = {0: 0, 1: 0}  # Spark hands over more than it should
    again.take(records(spark, 0, 14), {0: 7, 1: 7})
    assert places(tmp_path) == [("id-1", p, o) for p in (0, 1) for o in range(7)]


def test_a_recreated_topic_starts_anew_and_keeps_the_old_rows(spark, tmp_path, topic_in):
    topic_in(1).take(records(spark, 0, 4), {0: 2, 1: 2})
    other = Topic("t", "id-2", "cluster", {0: 0, 1: 0}, {0: 99, 1: 99})
    topic_in(2, other).take(records(spark, 0, 4), {0: 2, 1: 2})
    assert places(tmp_path) == [(i, p, o) for i in ("id-1", "id-2") for p in (0, 1) for o in (0, 1)]


def test_a_gap_in_the_topic_is_refused_not_skipped(spark, tmp_path, topic_in):
    topic_in(1).take(records(spark, 0, 4), {0: 2, 1: 2})
    moved = Topic("t", "id-1", "cluster", {0: 50, 1: 0}, {0: 99, 1: 99})
    with pytest.raises(Exception, match="48 rows are gone from the topic"):
        topic_in(2, moved)
    shrunk = Topic("t", "id-1", "cluster", {0: 0, 1: 0}, {0: 1, 1: 99})
    with pytest.raises(Exception, match="before bronze's offset 2"):
        topic_in(3, shrunk)


# --- quarantine ---------------------------------------------------------------------------------
class KnownSchemas:
    """Stands in for the registry: no id is known, so every framed row is condemned."""

    def writer(self, schema_id: int) -> None:
        return None


def contract_follower(spark, tmp_path, jobs, token: int) -> ContractFollower:
    stream = next(iter(jobs.streams.values()))
    definition = jobs.tables[TableName.parse("silver.trades")]
    bronze = BronzeWriter(tmp_path, stream.name, token=token, topic_id="id")
    schema = pa.schema([("ticker", pa.string())])

    def writer(name, schema):
        return RevisionWriter(tmp_path, name, "r", schema, token=token, live=True)

    own = table("silver.trades", inputs={"trades": stream}, kind=Rows())(only_ticker)
    context = TableContext(
        spark,
        own,
        "r",
        writer(definition.name, schema),
        writer(definition.name.quarantine, QUARANTINE),
    )
    return ContractFollower(context, bronze, stream, KnownSchemas())


def only_ticker(trades):
    return trades.select("ticker")


def bad_rows(first: int, last: int) -> pa.Table:
    listed = [
        {"value": b"junk", "topic": "trades", "topic_id": "id", "partition": 0, "offset": offset,
         "timestamp": NOON, "ingested_at": NOON} for offset in range(first, last)
    ]  # fmt: skip
    return pa.Table.from_pylist(listed, schema=bronze_schema())


def test_a_crash_after_quarantine_before_the_table_doubles_no_bad_row(
    spark, tmp_path, jobs, monkeypatch
):
    from penstock.runtime.files import write_arrow

    follower = contract_follower(spark, tmp_path, jobs, 1)
    bronze = follower.source
    bronze.append(write_arrow(bad_rows(0, 3), bronze.path), {0: 3}, None)

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("killed here")

    monkeypatch.setattr(follower.writer, "append", crash)
    with pytest.raises(RuntimeError, match="killed here"):
        follower.advance()
    # more rows arrive before the restart: they must not be swallowed by the position reached
    bronze.append(write_arrow(bad_rows(3, 5), bronze.path), {0: 5}, None)
    again = contract_follower(spark, tmp_path, jobs, 2)
    again.advance()
    kept = DeltaTable(str(tmp_path / "quarantine" / "silver_trades")).to_pyarrow_table()
    assert sorted(kept["offset"].to_pylist()) == [0, 1, 2, 3, 4]
    assert again.behind == 0


def test_what_no_single_row_explains_parks_the_table(spark):
    from penstock.errors import TransformError

    def build(some: pa.Table):
        frame = spark.createDataFrame(some)
        return frame.selectExpr("assert_true(count(*) over () < 3) as fine")

    with pytest.raises(TransformError, match="not because of any single row"):
        compute.isolate(build, sample(4), "gold.echo")
