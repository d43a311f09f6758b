"""Which errors of Spark condemn rows: read from what Spark really raises, however it was asked."""

from __future__ import annotations

import os

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.runtime.delta.files import spark_files
from penstock.runtime.kinds.compute import BROKEN_TRANSFORM, is_data_error

pytestmark = pytest.mark.spark


def divided(frame):
    return frame.select((F.lit(1) / (F.col("id") - 3)).alias("x"))


def cast(frame):
    return frame.select(F.concat(F.lit("n"), F.col("id")).cast("long").alias("x"))


def by_hand(frame):
    fail = F.udf(lambda number: [][number], "long")
    return frame.select(fail("id").alias("x"))


@pytest.mark.parametrize("breaks", [divided, cast, by_hand])
@pytest.mark.parametrize("written", [True, False], ids=["written", "collected"])
def test_a_row_is_to_blame(spark, tmp_path, breaks, written):
    frame = breaks(spark.range(10))
    with pytest.raises(BROKEN_TRANSFORM) as caught:
        spark_files(frame, tmp_path) if written else frame.toArrow()
    assert is_data_error(caught.value), str(caught.value)[:2000]


def test_a_place_that_cannot_be_written_condemns_no_row(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        spark.range(10).write.parquet(str(tmp_path / "file" / "below"))
    assert not is_data_error(caught.value), str(caught.value)[:2000]


def test_a_worker_that_dies_condemns_no_row(spark, tmp_path):
    dies = F.udf(lambda number: os._exit(3), "long")
    with pytest.raises(BROKEN_TRANSFORM) as caught:
        spark_files(spark.range(10).select(dies("id").alias("x")), tmp_path)
    assert not is_data_error(caught.value), str(caught.value)[:2000]


def test_what_is_not_of_spark_condemns_no_row():
    assert not is_data_error(OSError("SQLSTATE: 22012"))
