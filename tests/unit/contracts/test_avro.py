"""Avro by Spark: what decodes, and what a hostile message may not do."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pytest

from tests.unit.contracts.conftest import DATE, DECIMAL, LOCAL, MICROS, declared, record

pytestmark = pytest.mark.spark

SCHEMA = record(
    ("name", "string"),
    ("price", DECIMAL),
    ("at", MICROS),
    ("note", ["null", "string"], None),
    ("tags", {"type": "array", "items": "string"}, []),
)
ROW = {
    "name": "a",
    "price": Decimal("99999999.9999"),
    "at": dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC),
    "note": None,
    "tags": ["x"],
}


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(row: dict, schema: dict = SCHEMA, schema_id: int = 7) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


HEAD = b"\x00\x00\x00\x00\x07"
GOOD = message(ROW)


def test_each_message_is_a_row_or_says_why_not(decoded):
    hostile = {
        "good": GOOD,
        "null": None,
        "no frame": b"not avro",
        "short frame": b"\x00\x00",
        "unknown id": b"\x00\x00\x00\x00\x08" + GOOD[5:],
        "nothing": HEAD,
        "truncated": GOOD[:-2],
        "trailing byte": GOOD + b"\x00",
        "two gigabytes of text": HEAD + varint(2**31 - 20) + b"abcd",
        "a long too long": HEAD + b"\xff" * 11,
        "negative length": HEAD + varint(-5) + b"abcd",
        "not UTF-8": HEAD + varint(2) + b"\xff\xfe" + GOOD[7:],
        "not UTF-8 in a list": message({**ROW, "tags": ["abc"]}).replace(b"abc", b"a\xffc"),
        "year 290000": message({**ROW, "at": 2**63 - 1}),
    }
    rows, good = decoded(declared(SCHEMA), list(hostile.values()), {7: json.dumps(SCHEMA)})
    found = dict(zip(hostile, [row["error_class"] for row in rows], strict=True))
    wanted = dict.fromkeys(hostile, "undecodable") | {
        "good": None,
        "null": "null_value",
        "no frame": "bad_frame",
        "short frame": "bad_frame",
        "unknown id": "unknown_schema",
    }
    assert found == wanted
    assert [row["price"] for row in good] == [Decimal("99999999.9999")]
    assert good[0]["tags"] == ["x"]
    assert "schema id 7" in rows[6]["error"]


@pytest.mark.parametrize("field", ["bytes", "string", {"type": "array", "items": "null"}])
def test_a_length_that_no_message_can_have_is_never_allocated(decoded, field, spark):
    if isinstance(field, dict):
        field = {"type": "array", "items": "string"}
    schema = record(("x", field))
    rows, _ = decoded(
        declared(schema), [HEAD + varint(2**31 - 20) + b"ab"] * 3, {7: json.dumps(schema)}
    )
    assert {row["error_class"] for row in rows} == {"undecodable"}
    assert spark.range(3).count() == 3, "the session lives"


@pytest.mark.parametrize("raw", [10**12, -(10**12), 2**63 + 5, 2**64 + 5, 2**90])
def test_a_decimal_of_too_many_digits_is_refused_not_cut(decoded, raw):
    schema = record(("price", DECIMAL))
    size = raw.bit_length() // 8 + 1
    body = varint(size) + raw.to_bytes(size, "big", signed=True)
    rows, good = decoded(declared(schema), [HEAD + body], {7: json.dumps(schema)})
    assert rows[0]["error_class"] == "undecodable"
    assert not good


def test_several_writers_are_read_together_and_defaults_fill_in(decoded):
    old = record(("name", "string"))
    new = record(("name", "string"), ("size", "int", 3), ("more", "string", ""))
    values = [message({"name": "o"}, old, 1), message({"name": "n", "size": 5, "more": ""}, new, 2)]
    stream = declared(record(("name", "string"), ("size", "int", 3)))
    _, good = decoded(stream, values, {1: json.dumps(old), 2: json.dumps(new)})
    assert [(row["name"], row["size"]) for row in good] == [("o", 3), ("n", 5)]


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        ("no json", "is not an Avro record"),
        ('"string"', "is not an Avro record"),
        ('{"type": "object", "properties": {}}', "is not an Avro record"),
        (json.dumps(record(("price", {**DECIMAL, "scale": 2}))), "decimal\\(12,2\\) there"),
        (json.dumps(record(("price", "long"))), "price: is long there"),
        (json.dumps(record(("other", "long"))), "does not decode"),
    ],
)
def test_a_writer_schema_that_does_not_fit_condemns_its_rows_not_the_query(decoded, writer, said):
    import re

    rows, _ = decoded(declared(record(("price", DECIMAL))), [HEAD + b"\x02\x05"], {7: writer})
    assert rows[0]["error_class"] == "undecodable"
    assert re.search(said, rows[0]["error"])


def test_an_alias_finds_the_old_name(decoded):
    old = record(("name", "string"))
    new = record(("title", "string"))
    new["fields"][0]["aliases"] = ["name"]
    _, good = decoded(declared(new), [message({"name": "x"}, old)], {7: json.dumps(old)})
    assert good[0]["title"] == "x"


def test_dates_and_local_times(decoded):
    schema = record(("day", DATE), ("wall", LOCAL))
    row = {"day": dt.date(2026, 3, 29), "wall": dt.datetime(2026, 3, 29, 2, 30)}
    values = [message(row, schema), HEAD + varint(2**31 - 1) + varint(0)]
    rows, good = decoded(declared(schema), values, {7: json.dumps(schema)})
    assert {name: good[0][name] for name in row} == row
    assert rows[1]["error_class"] == "undecodable", "a day beyond the calendar"
