"""A prepared plan answers every batch as a plan made for it would, whatever its shape."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from penstock.runtime.kinds import prepared
from penstock.runtime.kinds.prepared import Prepared, to_frame

pytestmark = pytest.mark.spark

ROWS = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.decimal128(12, 4)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


def rows(*keys: int | None) -> pa.Table:
    listed = [
        {"k": k, "v": Decimal(n), "at": NOON + dt.timedelta(seconds=n), "tags": ["a"] * n}
        for n, k in enumerate(keys)
    ]
    return pa.Table.from_pylist(listed, ROWS)


def plain(a):
    return a.select("k", (F.col("v") * 2).alias("w"), "at", F.size("tags").alias("n"))


def filtered(a):
    return plain(a.where(F.col("k") > 1))


def exploded(a):
    return a.select("k", F.explode("tags").alias("tag"))


def grouped(a):
    return a.groupBy("k").agg(F.sum("v").alias("s"), F.countDistinct("at").alias("n"))


def ranked(a):
    within = Window.partitionBy("k").orderBy(F.col("at").desc())
    return a.withColumn("r", F.row_number().over(within)).where("r = 1").drop("tags")


def distinct_union(a):
    return a.select("k").union(a.select(F.col("k") + 1)).distinct()


def limited(a):
    return a.select("k").union(a.select("k")).orderBy("k").limit(3)


def global_mean(a):
    return a.agg(F.avg("v").alias("mean"), F.count("k").alias("n"))


def sub_query(a):
    return a.sparkSession.sql("select k from {a} where v >= (select avg(v) from {a})", a=a)


def with_udf(a):
    @F.udf("long")
    def twice(k):
        return None if k is None else k * 2

    return a.select("k", twice("k").alias("kk"))


def counted(a):
    return a.select("k", F.lit(a.count()).alias("n"))


def checkpointed(a):
    return a.select("k").localCheckpoint()


def checkpointed_later(a):
    return a.select("k", (F.col("v") + 1).alias("v")).localCheckpoint(eager=False)


def through_memory(a):
    return a.sparkSession.createDataFrame(a.select("k").toArrow())


def cached(a):
    held = a.select("k").persist()
    return a.sparkSession.createDataFrame(held.rdd.map(lambda row: (row.k,)), "k long")


def picky_sub_query(a):
    """Would fail on a row of nulls: nobody sends one."""
    picky = "select max(case when v is null then raise_error('a null') else v end) from {a}"
    return a.sparkSession.sql(f"select k, ({picky}) as most from {{a}}", a=a)


SHAPES = (
    counted,
    checkpointed,
    checkpointed_later,
    through_memory,
    cached,
    picky_sub_query,
    plain,
    filtered,
    exploded,
    grouped,
    ranked,
    distinct_union,
    limited,
    global_mean,
    sub_query,
    with_udf,
)
BATCHES = (
    rows(1, 2, 2, None),
    rows(5),
    rows(),
    rows(*([7, 8, 9] * 50)),
    pa.concat_tables([rows(), rows(1), rows(), rows(2, 3)]),
    rows(1, 2, 2, None),
)


def bag(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_batch_is_answered_as_by_a_plan_of_its_own(spark, shape):
    plan = Prepared(spark, {"a": ROWS}, shape)
    for batch in BATCHES:
        assert bag(plan.run(a=batch)) == bag(shape(to_frame(spark, batch)).toArrow())


@pytest.mark.parametrize("how", ["left", "inner", "full", "left_anti"])
def test_joins_of_two_inputs(spark, how):
    def join(a, b):
        return a.drop("tags").join(b.select("k", F.col("v").alias("other")), "k", how)

    plan = Prepared(spark, {"a": ROWS, "b": ROWS}, join)
    assert plan._results is not None
    for a, b in [(rows(1, 2, 2), rows(2, 3)), (rows(2), rows()), (rows(), rows(2)), (rows(3),) * 2]:
        direct = join(to_frame(spark, a), to_frame(spark, b))
        assert bag(plan.run(a=a, b=b)) == bag(direct.toArrow())


@pytest.mark.parametrize(
    ("shape", "reusable"),
    [(plain, True), (grouped, True), (ranked, True), (sub_query, False), (limited, None)],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_what_keeps_results_is_not_run_again(spark, shape, reusable):
    plan = Prepared(spark, {"a": ROWS}, shape)
    if reusable is not None:
        assert (plan._results is not None) == reusable
    broadcast = Prepared(
        spark, {"a": ROWS}, lambda a: a.drop("tags").join(F.broadcast(a.select("k")), "k")
    )
    assert broadcast._results is None


def test_a_plan_can_be_made_in_any_thread(spark):
    """Workers are threads, and Spark knows sessions by thread."""

    def join(a, b):
        return a.select("k").join(b.select("k"), "k")

    def work() -> pa.Table:
        return Prepared(spark, {"a": ROWS, "b": ROWS}, join).run(a=rows(1, 2), b=rows(2))

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()["k"].to_pylist() == [2]


def test_a_big_batch_goes_the_ordinary_way(spark, monkeypatch):
    plan = Prepared(spark, {"a": ROWS}, grouped)
    monkeypatch.setattr(prepared, "MOST_BYTES", 100)
    monkeypatch.setattr(plan, "_collected", None)  # would fail if it were asked
    batch = rows(*range(50))
    assert bag(plan.run(a=batch)) == bag(grouped(to_frame(spark, batch)).toArrow())


def test_a_batch_that_fails_spoils_no_later_one(spark):
    plan = Prepared(spark, {"a": ROWS}, lambda a: a.select((F.lit(10) / F.col("k")).alias("q")))
    assert plan.run(a=rows(5))["q"].to_pylist() == [2.0]
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        plan.run(a=rows(5, 0))
    assert plan.run(a=rows(2, 5))["q"].to_pylist() == [5.0, 2.0]


def test_inputs_with_fields_that_are_never_null(spark):
    counts = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    schema = pa.schema([("k", pa.int64()), ("counts", counts), pa.field("must", pa.int64(), False)])
    plan = Prepared(spark, {"a": schema}, lambda a: a.select("k", "counts.n", "must"))
    one = pa.Table.from_pylist([{"k": 1, "counts": {"n": 2}, "must": 3}], schema)
    assert plan.run(a=one).to_pylist() == [{"k": 1, "n": 2, "must": 3}]
