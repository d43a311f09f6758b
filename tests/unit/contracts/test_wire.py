"""JSON, XML, Protobuf and custom bytes: the pure part, without Spark."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model import Contract, Custom, Json, Protobuf, Xml
from penstock.model.contract_protobuf import encode_message
from penstock.model.contract_wire import message_reader
from tests.unit.contracts.conftest import DATE, DECIMAL, LOCAL, MICROS, record

SCHEMA = record(
    ("name", "string"),
    ("price", DECIMAL),
    ("size", "int"),
    ("at", MICROS),
    ("note", ["null", "string"], None),
)
GOOD = {"name": "a", "price": "1.5", "size": 3, "at": "2026-11-16T12:00:00+02:00"}
ROW = {
    "name": "a",
    "price": Decimal("1.5000"),
    "size": 3,
    "at": dt.datetime(2026, 11, 16, 10, tzinfo=dt.UTC),
    "note": None,
}
PROTO = Protobuf(
    "tests.Row",
    fields=(
        "string name = 1",
        "string price = 2",
        "optional int32 size = 3",
        "google.protobuf.Timestamp at = 4",
        "optional string note = 5",
    ),
)


def read(value, format_=None, schema=SCHEMA):
    contract = Contract("x", schema, format=format_ or Json())
    assert contract.problems() == []
    return message_reader(contract.schema_json, contract.format)(value)


def with_(**changed) -> bytes:
    return json.dumps({**GOOD, **changed}).encode()


def test_json_is_fitted_to_its_types():
    assert read(with_()).row == ROW
    assert read(with_(extra={"ignored": [1]})).row == ROW
    assert read(with_(note=None)).row == ROW
    assert read(with_(price=1.5)).row == ROW


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"a": 1} tail', "Extra data"),
        (b'{"name": "\xff"}', "is not UTF-8"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"name": "\\ud800"}', "name: is not Unicode"),
        (with_(name=1), "name: is 1, not text"),
        (with_(name=None), "name: is null"),
        (with_(size=2**31), "size: is 2147483648, more than int holds"),
        (with_(size=1.0), "size: is"),
        (with_(size=True), "size: is True, not an integer"),
        (with_(size="3"), "size: is '3', not an integer"),
        (with_(price="1.00001"), "price: is '1.00001': decimal\\(12,4\\) would lose digits"),
        (with_(price="123456789"), "price: is '123456789', more than"),
        (with_(price="NaN"), "price: is 'NaN'"),
        (with_(at="2026-11-16T12:00:00"), "at: is .*, not a moment with a zone"),
        (with_(at=2**62), "at: is"),
        (with_().replace(b'"1.5"', b"1e999999999"), "price: is .* more than"),
        (with_().replace(b'"1.5"', b"1e-999999999"), "price: is .* lose digits"),
        (with_().replace(b'"1.5"', b"9" * 5000), "ValueError"),
        (with_().replace(b'"1.5"', b"NaN"), "holds NaN, which is not JSON"),
        (json.dumps({"name": "a"}).encode(), "price: is missing"),
    ],
)
def test_json_that_does_not_fit_names_the_field(value, said):
    import re

    found = read(value)
    assert found.row is None
    assert re.search(said, found.error)
    assert len(found.error) <= 300


def test_nested_fields_are_named_by_their_path():
    schema = record(
        ("list", {"type": "array", "items": record(("x", "int")) | {"name": "Inner"}}),
        ("map", {"type": "map", "values": "double"}, {}),
    )
    assert read(b'{"list": [{"x": 1}], "map": {"a": 1}}', schema=schema).row["map"] == {"a": 1.0}
    assert read(b'{"list": [{"x": 1}, {}]}', schema=schema).error == "list.[1].x: is missing"
    assert read(b'{"list": [], "map": {"k": 1e999}}', schema=schema).error.startswith("map.k: is")


def test_bytes_are_base64_and_local_times_have_no_zone():
    schema = record(("raw", "bytes"), ("wall", LOCAL), ("day", DATE), ("on", "boolean"))
    row = read(
        b'{"raw": "AAE=", "wall": "2026-03-29T02:30:00", "day": "2026-03-29", "on": false}',
        schema=schema,
    ).row
    assert row["raw"] == b"\x00\x01"
    assert row["wall"] == dt.datetime(2026, 3, 29, 2, 30)
    assert row["day"] == dt.date(2026, 3, 29)
    bad = b'{"raw": "%", "wall": "2026-03-29T02:30:00Z", "day": 0, "on": false}'
    assert read(bad, schema=schema).error == "raw: is not base64"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_any_format_raise(value):
    for format_ in (Json(), Xml("row"), PROTO, Custom(json.loads)):
        found = read(value, format_)
        assert (found.row is None) != (found.error is None)


# --- XML ----------------------------------------------------------------------------------------
XML = b"<row size='3'><name>a</name><price> 1.5 </price><at>2026-11-16T10:00:00Z</at></row>"


def test_xml_elements_and_attributes_are_fields():
    assert read(XML, Xml("row")).row == ROW
    assert read(b"<feed><head/>" + XML + b"</feed>", Xml("row")).row == ROW
    schema = record(
        ("x", {"type": "array", "items": "int"}), ("y", record(("z", "boolean")) | {"name": "Y"})
    )
    found = read(b"<row><x>1</x><x>2</x><y><z>true</z></y></row>", Xml("row"), schema)
    assert found.row == {"x": [1, 2], "y": {"z": True}}
    assert read(b"<row><x>1</x><y><z>0</z></y></row>", Xml("row"), schema).row["x"] == [1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"<row", "is not XML"),
        (XML + XML, "is not XML"),
        (b"<a>" + XML + XML + b"</a>", "more than one <row>"),
        (b"<other/>", "has no <row>"),
        (b"<!DOCTYPE r [<!ENTITY x 'y'>]><row>&x;</row>", "DOCTYPE"),
        (b"<!DOCTYPE r SYSTEM 'file:///etc/passwd'><row/>", "DOCTYPE"),
        (b"<row>" * 100_000, "nested too deep"),
        (b"<row><name>\xff</name></row>", "is not XML"),
        (XML.replace(b"'3'", b"'three'"), "size: is 'three', not an integer"),
    ],
)
def test_xml_that_does_not_fit(value, said):
    found = read(value, Xml("row"))
    assert found.row is None
    assert said in found.error


# --- Protobuf -----------------------------------------------------------------------------------
def test_protobuf_by_a_compact_declaration_and_by_a_descriptor():
    from google.protobuf import descriptor_pb2

    from penstock.model.contract_protobuf import _declared

    value = encode_message(PROTO)(ROW)
    assert read(value, PROTO).row == ROW
    files = descriptor_pb2.FileDescriptorSet(file=[_declared(PROTO, descriptor_pb2)])
    compiled = Protobuf("tests.Row", descriptor=files.SerializeToString())
    assert read(value, compiled).row == ROW


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_broken_protobuf_is_undecodable(cut):
    value = encode_message(PROTO)(ROW)
    for broken in (value[:-cut], value + b"\x00", b"\x0a\xff\xff\xff\xff\x07ab", b"\x0a\x01\xff"):
        assert read(broken, PROTO).row is None


def test_protobuf_unknown_fields_are_ignored_and_missing_ones_named():
    value = encode_message(PROTO)(ROW)
    assert read(value + b"\x7a\x01a", PROTO).row == ROW  # field 15
    assert read(encode_message(PROTO)({**ROW, "size": None}), PROTO).error == "size: is missing"


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        (Protobuf("R"), "a descriptor or a list of fields"),
        (Protobuf("R", fields=("strin name = 1",)), "is no scalar type"),
        (Protobuf("R", fields=("string = 1",)), "is not a field"),
        (Protobuf("R", descriptor=b"\xff"), "has no sound message"),
        (Protobuf("R", fields=("string name = 1",)), "message R has no price"),
        (Xml(""), "is no element's name"),
    ],
)
def test_wrong_formats_are_said(format_, said):
    assert any(said in problem for problem in Contract("x", SCHEMA, format=format_).problems())


# --- custom -------------------------------------------------------------------------------------
def test_a_custom_decoder_gives_fields_or_raises():
    def pipes(raw: bytes) -> dict:
        name, price, size, at = raw.decode().split("|")
        return {"name": name, "price": price, "size": int(size), "at": at}

    assert read(b"a|1.5|3|2026-11-16T10:00:00Z", Custom(pipes)).row == ROW
    assert read(b"a|1.5", Custom(pipes)).error.startswith("ValueError")
    assert read(b"a", Custom(lambda raw: raw)).error.endswith("not a record")
    assert read(b"a", Custom(lambda raw: raw[9])).error.startswith("IndexError")


def test_a_reason_can_be_written_down_whatever_is_in_the_message():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "m", "type": {"type": "map", "values": "long"}}],
    }
    for value in (b'{"m": {"\\ud800": 1}}', b'{"m": {"\\ud800": "x"}}'):
        assert (read(value, schema=schema).error or "").encode()
