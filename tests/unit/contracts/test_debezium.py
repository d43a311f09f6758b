"""Changes as Debezium writes them: what becomes a row, what is skipped, what is wrong."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from penstock.model import Contract, Debezium, EventTime, PlausibleTime, Range
from penstock.model.contract_wire import message_reader
from tests.unit.contracts.conftest import DATE, DECIMAL, LOCAL, MICROS, declared, record

SCHEMA = record(
    ("id", "long"),
    ("name", "string"),
    ("amount", DECIMAL),
    ("changed_at", MICROS),
    ("wall", ["null", LOCAL], None),
    ("day", ["null", DATE], None),
    ("active", "boolean", True),
    ("ratio", ["null", "double"], None),
    ("ref", ["null", {"type": "string", "logicalType": "uuid"}], None),
    ("extra", ["null", "string"], None),
)
ROW = {
    "id": 1,
    "name": "a",
    "amount": "12.50",
    "changed_at": "2026-11-16T12:00:00.123456Z",
    "wall": 1_774_751_400_000_000,
    "day": 20_541,
    "active": False,
    "ratio": 0.5,
    "ref": "6f1e2c3a-0000-4000-8000-000000000001",
    "extra": '{"k": 1}',
    "unknown_to_us": [1, 2],
}
SOURCE = {"lsn": 77, "ts_ms": 1_794_830_400_000, "ts_us": 1_794_830_400_000_123}
COMMITTED = dt.datetime(2026, 11, 16, 12, 0, 0, 123, tzinfo=dt.UTC)


def event(op: str, *, after=None, before=None, source=SOURCE) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()


def read(value):
    contract = Contract("x", SCHEMA, format=Debezium())
    assert contract.problems() == []
    return message_reader(contract.schema_json, contract.format)(value)


def test_all_types_of_postgres():
    found = read(event("c", after=ROW))
    assert found.row == {
        **{k: v for k, v in ROW.items() if k != "unknown_to_us"},
        "amount": Decimal("12.5000"),
        "changed_at": dt.datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=dt.UTC),
        "wall": dt.datetime(2026, 3, 29, 2, 30),
        "day": dt.date(2026, 3, 29),
    }
    assert found.change == {"op": "c", "lsn": 77, "committed_at": COMMITTED}


def without(name: str) -> dict:
    return {k: v for k, v in ROW.items() if k != name}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{}", "op: is None"),
        (event("x", after=ROW), "op: is 'x'"),
        (event("c", before=ROW), "after: is missing"),
        (event("d", after=ROW), "before: is missing.*REPLICA IDENTITY FULL"),
        (event("c", after=ROW, source=None), "source: is missing"),
        (event("c", after=ROW, source={"lsn": 1}), "neither ts_us nor ts_ms"),
        (event("c", after=ROW, source={**SOURCE, "ts_us": 2**62}), "beyond the year 9999"),
        (event("c", after=without("name")), "name: is missing"),
        (event("u", after={**ROW, "amount": None}), "amount: is null"),
        (event("u", after={**ROW, "name": "__debezium_unavailable_value"}), "name: was not in"),
    ],
)
def test_what_is_wrong_names_the_column(value, said):
    import re

    found = read(value)
    assert found.row is None
    assert re.search(said, found.error)


def test_dropped_columns_come_as_their_default_and_long_values_from_before():
    assert read(event("u", after=without("active"))).row["active"] is True
    assert read(event("u", after=without("extra"))).row["extra"] is None
    long = {**ROW, "extra": "__debezium_unavailable_value"}
    assert read(event("u", after=long, before=ROW)).row["extra"] == '{"k": 1}'


def test_millis_will_do_where_a_source_has_no_micros():
    source = {"lsn": 1, "ts_ms": 1_794_830_400_000}
    at = read(event("c", after=ROW, source=source)).change["committed_at"]
    assert at == dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)


@pytest.mark.spark
def test_changes_become_rows_and_tombstones_nothing(decoded):
    stream = declared(
        SCHEMA,
        Debezium(),
        rules=[Range("id", minimum=1), PlausibleTime()],
        event_time=EventTime.COMMIT,
    )
    bad = {**ROW, "id": 0}
    values = [
        event("r", after=ROW),
        event("c", after=ROW),
        event("u", after={**ROW, "name": "b"}, before=ROW),
        event("d", before=ROW),
        None,
        event("t"),
        event("m"),
        event("c", after=bad),
        event("d", before=bad),
        event("c", after=ROW, source={"lsn": 1, "ts_ms": 0}),
        b"{",
    ]
    rows, good = decoded(stream, values)
    assert [row["offset"] for row in rows if row["skipped"]] == [4, 6]
    assert {row["offset"]: row["error"] for row in rows if row["error_class"] == "contract"} == {
        7: "range:id",
        9: "plausible_time",
    }
    assert [row["offset"] for row in rows if row["error_class"] == "undecodable"] == [10]
    assert [(row["_offset"], row["_op"]) for row in good] == [
        (0, "r"), (1, "c"), (2, "u"), (3, "d"), (5, "t"), (8, "d"),
    ]  # fmt: skip
    by = {row["_offset"]: row for row in good}
    assert by[0]["_snapshot"]
    assert not by[1]["_snapshot"]
    assert by[3]["_deleted"]
    assert by[3]["name"] == "a"
    assert by[5]["_truncated"]
    assert all(by[5][name] is None for name in stream.contract.columns)
    assert by[2]["_lsn"] == 77
    assert by[2]["_committed_at"] == by[2]["event_time"] == COMMITTED
    assert by[5]["event_time"] == COMMITTED
    assert list(good[0])[-10:] == [
        "_op", "_deleted", "_truncated", "_snapshot", "_lsn", "_committed_at",
        "_topic", "_partition", "_offset", "_ingested_at",
    ]  # fmt: skip


@pytest.mark.spark
def test_a_truncate_has_the_time_of_its_commit(decoded):
    stream = declared(SCHEMA, Debezium(), event_time="changed_at")
    _, good = decoded(stream, [event("t"), event("c", after=ROW)])
    assert good[0]["event_time"] == COMMITTED
    assert good[1]["event_time"] == good[1]["changed_at"]
