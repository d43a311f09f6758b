"""A producer sends only what its contract takes, and what it sends decodes to the same row."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from unittest.mock import create_autospec

import pytest
from confluent_kafka import Producer

from penstock.clients import producer as module
from penstock.clients import records
from penstock.clients.encode import encoder
from penstock.errors import ContractBroken, DefinitionError
from penstock.model import (
    Contract,
    Custom,
    Debezium,
    Json,
    LocalTime,
    Matches,
    PlausibleTime,
    Protobuf,
    Range,
    Xml,
)
from penstock.model.contract_rows import check, fit
from penstock.model.contract_wire import message_reader
from tests.unit.contracts.conftest import DATE, DECIMAL, LOCAL, MICROS, declared, record

NOW = dt.datetime.now(dt.UTC)
SCHEMA = record(
    ("name", "string"),
    ("price", DECIMAL),
    ("size", "int"),
    ("at", MICROS),
    ("wall", LOCAL),
    ("day", DATE),
    ("raw", "bytes"),
    ("on", "boolean"),
    ("ratio", "double"),
    ("tags", {"type": "array", "items": "string"}),
    ("note", ["null", "string"], None),
)
ROW = {
    "name": "é <&> ]]>",
    "price": Decimal("1.5"),
    "size": -3,
    "at": NOW,
    "wall": dt.datetime(2026, 3, 29, 2, 30, 0, 5),
    "day": dt.date(2026, 3, 29),
    "raw": b"\x00\xff",
    "on": False,
    "ratio": 0.1,
    "tags": ["x", "y z"],
}
PROTO = Protobuf(
    "Row",
    fields=(
        "string name = 1",
        "string price = 2",
        "int32 size = 3",
        "google.protobuf.Timestamp at = 4",
        "int64 wall = 5",
        "string day = 6",
        "bytes raw = 7",
        "bool on = 8",
        "double ratio = 9",
        "repeated string tags = 10",
        "optional string note = 11",
    ),
)


@pytest.mark.parametrize("format_", [Json(), Xml("row"), PROTO])
def test_what_is_encoded_decodes_to_the_same_row(format_):
    contract = Contract("x", SCHEMA, format=format_)
    assert contract.problems() == []
    fitted = fit(contract, ROW).row
    value = encoder(contract)(fitted)
    found = message_reader(contract.schema_json, format_)(value)
    assert found.error is None
    assert found.row == fitted


def test_what_a_format_cannot_hold_is_refused():
    contract = Contract("x", record(("x", "double"), ("y", "string")), format=Json())
    with pytest.raises(ContractBroken, match="cannot be JSON"):
        encoder(contract)({"x": float("nan"), "y": ""})
    with pytest.raises(ContractBroken, match="XML cannot"):
        encoder(Contract("x", contract.schema, format=Xml("row")))({"x": 1.0, "y": "\x00"})
    for format_ in (Debezium(), Custom(json.loads)):
        with pytest.raises(DefinitionError, match="is not encoded here"):
            encoder(Contract("x", contract.schema, format=format_))
    with pytest.raises(DefinitionError, match="needs its schema id"):
        encoder(Contract("x", contract.schema))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": "3"}, "size = '3': is '3', not an integer"),
        ({"size": 2**31}, "more than int holds"),
        ({"size": True}, "not an integer"),
        ({"price": 1.5}, "not an exact number"),
        ({"price": Decimal("0.00001")}, "would lose digits"),
        ({"name": None}, "name = None: is null"),
        ({"at": dt.datetime(2026, 1, 1)}, "not a moment with a zone"),
        ({"wall": NOW}, "not a local time without a zone"),
        ({"day": NOW}, "not a date"),
        ({"tags": "x"}, "not a list"),
        ({"tags": [1]}, "is 1, not text"),
        ({"nmae": "x"}, "nmae = 'x': x-value has no such field"),
    ],
)
def test_wrong_types_are_named(changed, said):
    found = check(Contract("x-value", SCHEMA), {**ROW, **changed}, NOW, NOW)
    assert any(said in str(problem) for problem in found)


@pytest.fixture
def producing(monkeypatch, settings):
    """A producer of a stream with everything but the broker and the registry."""
    sent = create_autospec(Producer, instance=True)
    monkeypatch.setattr(records, "Producer", lambda options: sent)
    monkeypatch.setattr(records, "producer_options", lambda *args, **kwargs: {})
    monkeypatch.setattr(module, "ensure_subjects", lambda settings, streams: {"x-value": 7})

    def make(*args, **kwargs):
        return module.StreamProducer(settings, declared(*args, **kwargs), user="u"), sent

    return make


RULES = [Matches("name", "[a-z]+"), Range("size", minimum=1), PlausibleTime()]


def test_a_row_that_keeps_its_contract_is_sent(producing):
    producer, sent = producing(record(("name", "string"), ("size", "int")), rules=RULES)
    producer.send("k", {"name": "a", "size": 1}, at=dt.datetime.now(dt.UTC))
    topic, value, key = sent.produce.call_args.args
    assert (topic, key) == ("x", b"k")
    assert value == b"\x00\x00\x00\x00\x07\x02a\x02"


@pytest.mark.parametrize(
    ("row", "late", "said"),
    [
        ({"name": "A", "size": 1}, 0, "name = 'A': breaks pattern [a-z]+ (matches:name)"),
        ({"name": "a", "size": 0}, 0, "size = 0: breaks minimum 1 (range:size)"),
        ({"name": "a", "size": 1}, 8, "(plausible_time)"),
        ({"name": "a"}, 0, "is missing (type)"),
    ],
)
def test_any_other_is_refused_and_not_sent(producing, row, late, said):
    producer, sent = producing(record(("name", "string"), ("size", "int")), rules=RULES)
    with pytest.raises(ContractBroken) as caught:
        producer.send("k", row, at=dt.datetime.now(dt.UTC) - dt.timedelta(days=late))
    assert said in str(caught.value)
    assert caught.value.exit_code == 11
    sent.produce.assert_not_called()


def test_bad_rows_on_purpose_go_raw(producing):
    producer, sent = producing(record(("name", "string"), ("size", "int")), rules=RULES)
    producer.send_raw(b"k", producer.encode({"name": "A", "size": 0}), at=NOW)
    sent.produce.assert_called_once()


def test_a_local_event_time_is_held_to_its_zone(producing):
    producer, sent = producing(
        record(("wall", LOCAL), ("zone", "string")),
        Json(),
        rules=[PlausibleTime()],
        event_time=LocalTime("wall", "zone"),
    )
    wall = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    producer.send("k", {"wall": wall, "zone": "UTC"}, at=NOW)
    assert producer.schema_id is None
    for zone in ("Asia/Tokyo", "America/New_York", "Mars/Olympus"):
        if zone == "Asia/Tokyo":  # nine hours back is plausible
            producer.send("k", {"wall": wall, "zone": zone}, at=NOW)
            continue
        with pytest.raises(ContractBroken, match="event_time"):
            producer.send("k", {"wall": wall, "zone": zone}, at=NOW)
    assert sent.produce.call_count == 2
