"""Which transforms leave a key as it is, by Spark's own plans."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from penstock.errors import TransformError
from penstock.model.names import TableName
from penstock.model.windows import Sliding
from penstock.runtime.kinds.passed import passes_on, require_beginnings
from penstock.runtime.kinds.windows import assign_sliding

pytestmark = pytest.mark.spark

TOTAL = "sum(v) as total"
TOO = ("k", "window_end")


def grouped(rows):
    return rows.groupBy(*TOO).agg(F.expr(TOTAL))


def filtered(rows):
    return grouped(rows.where("v > 1")).where("total > 3").select("total", *TOO)


def by_sql(rows):
    query = "select k, window_end, sum(v) as total from {rows} group by k, window_end"
    return rows.sparkSession.sql(query, rows=rows)


def joined(rows):
    return rows.join(grouped(rows), ["k", "window_end"]).select(*TOO, "v", "total")


def ranked(rows):
    order = Over.partitionBy(*TOO).orderBy("v")
    return rows.withColumn("place", F.row_number().over(order)).where("place = 1")


def cased(rows):
    return rows.groupBy(F.upper("k").alias("k"), "window_end").agg(F.expr(TOTAL))


def replaced(rows):
    return grouped(rows.withColumn("k", F.when(F.col("k") == "b", "a").otherwise(F.col("k"))))


def renamed(rows):
    return rows.select("k2", *TOO).groupBy(F.col("k2").alias("k"), "window_end").count()


def united(rows):
    return rows.select(*TOO).union(rows.select(F.lit("x"), "window_end"))


def outer(rows):
    other = rows.groupBy("window_end").agg(F.max("v").alias("v"))
    return other.join(rows, "window_end", "left").select("k", "window_end")


def rolled(rows):
    return rows.rollup(*TOO).agg(F.expr(TOTAL))


def without(rows):
    return rows.groupBy("window_end").agg(F.expr(TOTAL))


@pytest.mark.parametrize(
    ("transform", "passes"),
    [(t, True) for t in (grouped, filtered, by_sql, joined, ranked)]
    + [(t, False) for t in (cased, replaced, renamed, united, outer, rolled, without)],
)
def test_a_key_is_passed_on(spark, transform, passes):
    rows = spark.createDataFrame([], "k string, k2 string, v long, t timestamp")
    given = assign_sliding(rows, Sliding(on="t", size="5 seconds", by=("k",)))
    assert passes_on(transform, given, ("k",)) is passes


def test_each_of_several_keys_has_to_be(spark):
    rows = spark.createDataFrame([], "k string, k2 string, v long, t timestamp")
    given = assign_sliding(rows, Sliding(on="t", size="5 seconds", by=("k", "k2")))

    def one_changed(frame):
        return frame.groupBy("k", F.lower("k2").alias("k2"), "window_end").agg(F.expr(TOTAL))

    assert passes_on(lambda frame: frame.groupBy("k", "k2").agg(F.expr(TOTAL)), given, ("k", "k2"))
    assert not passes_on(one_changed, given, ("k", "k2"))


def test_a_table_of_ours_that_has_to_be_quick_passes_its_key_on(spark, jobs):
    table = jobs.tables[TableName.parse("gold.card_velocity")]
    rows = spark.createDataFrame(
        [],
        "card_id string, paid_at timestamp, payment_id string, card_kind string, merchant string, "
        "amount decimal(12, 2), latitude double, longitude double",
    )
    assert passes_on(table, assign_sliding(rows, table.kind), table.kind.by)


def test_results_of_sessions_begin_when_rows_are():
    moments = pa.chunked_array([[1, 5], [7]], pa.timestamp("us", tz="UTC"))
    require_beginnings("gold.some", moments.slice(1), moments)
    require_beginnings("gold.some", moments.slice(3), moments.slice(3))
    for strange in (6, None):
        begins = pa.chunked_array([[1, strange]], moments.type)
        with pytest.raises(TransformError, match=r"gold\.some: .* does not pass window_start on"):
            require_beginnings("gold.some", begins, moments)
