"""The Spark form of a contract's rules and the Python form come to the same verdict."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model import Contract, Json, Matches, OneOf, PlausibleTime, Range, stream
from penstock.model.contract_rows import broken_rules, event_time_of, fit
from penstock.runtime.decode.expression import decode
from penstock.runtime.ingest.bronze import bronze_schema

pytestmark = pytest.mark.spark

NOW = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "text", "type": ["null", "string"], "default": None},
        {"name": "word", "type": "string"},
        {"name": "small", "type": "int"},
        {"name": "big", "type": ["null", "long"], "default": None},
        {"name": "ratio", "type": ["null", "double"], "default": None},
        {"name": "single", "type": "float"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
RULES = [
    Matches("text", r"(?:\w|\s|.)?[a-z]*(-\d+)?$"),
    OneOf("word", ("", "a", "é", "B")),
    OneOf("small", (0, 1, 2, 3, -1)),
    Range("big", minimum=-5, maximum=Decimal("10.5")),
    Range("ratio", minimum=Decimal("0.1"), maximum=1),
    Range("single", minimum=Decimal("-0.1"), maximum=Decimal("0.7")),
    Range("price", minimum=Decimal("0.0001"), maximum=Decimal("99.99")),
    PlausibleTime(past="1 hour", future="1 minute"),
]

near = st.integers(-3_700_000_000, 70_000_000).map(lambda us: NOW + dt.timedelta(microseconds=us))
edges = st.sampled_from([NOW - dt.timedelta(hours=1), NOW + dt.timedelta(minutes=1), NOW])
rows = st.fixed_dictionaries(
    {
        "text": st.none()
        | st.text(max_size=6)
        | st.sampled_from(["abc-12", "é", "\r", "a\n", "\n", "\u2028a", "x\u0085", "٣", "-٣"]),
        "word": st.sampled_from(["", "a", "é", "B", "b", "A "]),
        "small": st.integers(-2, 4),
        "big": st.none() | st.integers(-7, 13) | st.sampled_from([2**63 - 1, -(2**63)]),
        "ratio": st.none() | st.floats() | st.sampled_from([0.1, 1.0, 0.09999999999999999]),
        "single": st.floats(width=32) | st.sampled_from([0.7, -0.1]),
        "price": st.decimals(-1, 101, places=4) | st.sampled_from([Decimal("99.99")]),
        "at": near | edges,
    }
)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(rows, min_size=20, max_size=60))
def test_spark_and_python_name_the_same_first_broken_rule(spark, listed):
    contract = Contract("r-value", SCHEMA, RULES)
    declared = stream("bronze.r", topic="r", contract=contract, event_time="at")
    schema = fastavro.parse_schema(json.loads(contract.schema_json))
    values, wanted = [], []
    for row in listed:
        fitted = fit(contract, row).row
        assert fitted is not None
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, fitted)
        values.append(b"\x00\x00\x00\x00\x01" + body.getvalue())
        time = event_time_of(declared, fitted, NOW, NOW)
        broken = broken_rules(contract, fitted, time, NOW)
        wanted.append(broken[0].rule if broken else None)
    found = decode(_bronze(spark, values), declared, {1: contract.schema_json})
    told = found.select("offset", "error").toArrow().to_pylist()
    assert [r["error"] for r in sorted(told, key=lambda r: r["offset"])] == wanted


def _bronze(spark, values):
    listed = [
        {"value": v, "topic": "r", "partition": 0, "offset": n, "timestamp": NOW,
         "timestamp_type": 0, "ingested_at": NOW}
        for n, v in enumerate(values)
    ]  # fmt: skip
    table = pa.Table.from_pylist(listed, bronze_schema())
    return spark.createDataFrame(table.drop_columns("headers"))


def test_a_custom_decoder_is_part_of_what_a_stream_means(spark):
    from penstock.model import Custom
    from penstock.runtime.code.fingerprint import plan_text

    def plan(decoder) -> str:
        contract = Contract("c", SCHEMA, format=Custom(decoder))
        declared = stream("bronze.c", topic="c", contract=contract)
        return plan_text(decode(_bronze(spark, []), declared, {}))

    assert plan(lambda raw: json.loads(raw[2:])) == plan(lambda value: json.loads(value[2:]))
    assert plan(lambda raw: json.loads(raw[2:])) != plan(lambda raw: json.loads(raw[1:]))


def test_a_batch_is_decoded_once_however_often_it_is_looked_at(spark):
    from penstock.runtime.decode.expression import transform_input

    contract = Contract("j", SCHEMA, RULES, format=Json())
    declared = stream("bronze.j", topic="j", contract=contract, event_time="at")
    frame = transform_input(decode(_bronze(spark, [b"{}"]), declared, {}), declared)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython [") == 1
