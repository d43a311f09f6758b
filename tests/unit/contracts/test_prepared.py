"""A plan made once decodes every batch alike, whichever side decodes: Spark or Python."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

from penstock.model import Json, Range
from penstock.runtime.decode.expression import decode, transform_input
from penstock.runtime.fates import quarantine
from penstock.runtime.kinds.prepared import Prepared
from tests.unit.contracts.conftest import bronze_rows, declared, record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("format_", [None, Json()])
def test_both_sides_of_a_batch_in_one_prepared_plan(spark, format_):
    schema = record(("x", "int"))
    stream = declared(schema, format_, rules=[Range("x", minimum=0)])
    texts = [b'{"x": 1}', b'{"x": -1}', b"{", b'{"x": 2}']
    avro = [b"\x00\x00\x00\x00\x07" + body for body in (b"\x02", b"\x01", b"", b"\x04")]
    values = texts if format_ else avro

    def build(bronze):
        frame = decode(bronze, stream, {7: json.dumps(schema)})
        good = transform_input(frame, stream).select(F.col("x").cast("string").alias("said"))
        bad = quarantine.condemned(frame, "s").select(F.col("error_class").alias("said"))
        return good.unionByName(bad)

    prepared = Prepared(spark, {"bronze": bronze_rows([]).schema}, build)
    for batch in (values, values[:2], values[3:]):
        found = sorted(prepared.run(bronze=bronze_rows(batch))["said"].to_pylist())
        direct = build(spark.createDataFrame(bronze_rows(batch)))
        assert found == sorted(row["said"] for row in direct.collect())
    assert found == ["2"]
