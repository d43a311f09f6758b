"""Declarations: what is right is kept, what is wrong is said with its file, line and fix."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.errors import DefinitionError
from penstock.model import (
    Contract,
    Debezium,
    EventTime,
    Matches,
    OneOf,
    PlausibleTime,
    Range,
    Rows,
    hopping,
    stream,
    table,
    tumbling,
)
from penstock.model.duration import micros, parse_duration
from penstock.model.names import TableName

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}


def contract(**changes) -> Contract:
    return Contract(**({"subject": "r-value", "schema": SCHEMA, "rules": ()} | changes))


# --- names and durations ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "gold",
        "gold.",
        "gold.X",
        "gold.a-b",
        "gold.a b",
        "iron.x",
        "gold.../x",
        "gold.a/b",
        "gold.é",
        "gold.x\n",
    ],
)
def test_names_that_could_leave_their_folder_are_refused(text):
    with pytest.raises(ValueError, match="is not a table name"):
        TableName.parse(text)


def test_what_lies_beside_two_tables_does_not_collide():
    tables = [TableName.parse(n) for n in ("silver.trades", "gold.trades")]
    beside = {name for t in tables for name in (t.quarantine, t.late, t.outcomes)}
    assert len(beside) == 6
    assert str(tables[1].late) == "late.gold_trades"
    assert str(tables[1].outcomes) == "outcomes.gold_trades"


def test_durations():
    assert micros(parse_duration("5 seconds")) == 5_000_000
    assert parse_duration("1 day") == parse_duration("24 hours")
    for bad in ("5", "five seconds", "-1 second", "1.5 seconds", "1 fortnight", ""):
        with pytest.raises(ValueError, match="is not a length of time"):
            parse_duration(bad)
    assert parse_duration("36525 days").days == 36_525
    for long in ("36526 days", "999999999 days", "9999999999 days", f"{'9' * 4000} weeks"):
        with pytest.raises(ValueError, match="longer than 100 years"):
            parse_duration(long)


# --- contracts ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([Range("y", minimum=0)], "names 'y', which r-value does not have; its fields are x"),
        ([Range("x")], "neither a minimum nor a maximum"),
        ([Range("x", minimum=2, maximum=Decimal(1))], "2 is above 1"),
        ([OneOf("x", ())], "lists no value"),
        ([Matches("x", "(")], "is not a regular expression"),
        ([PlausibleTime(past="long ago")], "is not a length of time"),
    ],
)
def test_contract_problems_name_the_field(rules, said):
    assert any(said in problem for problem in contract(rules=rules).problems())


def test_a_sound_contract_has_none():
    assert contract(rules=[Range("x", minimum=0), PlausibleTime()]).problems() == []


def test_a_schema_that_is_no_record_is_refused():
    assert contract(schema={"type": "string"}).problems()


# --- streams and tables -------------------------------------------------------------------------
def test_a_wrong_declaration_names_this_file_and_line():
    with pytest.raises(DefinitionError) as caught:
        stream("gold.x", topic="t", contract=contract())
    assert "test_definition.py:" in str(caught.value)
    assert "name it bronze.x" in str(caught.value)


def test_event_time_must_exist():
    with pytest.raises(DefinitionError, match="neither an EventTime nor a field"):
        stream("bronze.x", topic="t", contract=contract(), event_time="when")
    assert stream("bronze.x", topic="t", contract=contract(), event_time=EventTime.INGEST)


def test_event_time_must_be_a_time_and_commit_times_are_debeziums():
    with pytest.raises(DefinitionError, match="event_time 'x' is int, not a timestamp"):
        stream("bronze.x", topic="t", contract=contract(), event_time="x")
    with pytest.raises(DefinitionError, match="COMMIT, which only changes of Debezium have"):
        stream("bronze.x", topic="t", contract=contract(), event_time=EventTime.COMMIT)
    changes = contract(format=Debezium())
    assert stream("bronze.x", topic="t", contract=changes, event_time=EventTime.COMMIT)


def test_a_table_is_still_its_function():
    @table("silver.double", inputs={"n": "bronze.n"}, kind=Rows())
    def double(n):
        """Twice."""
        return n * 2

    assert double(21) == 42
    assert double.doc == "Twice."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"inputs": {}}, "it reads nothing"),
        ({"inputs": {"a": "silver.a"}}, r"takes \(n\) but should take \(a\)"),
        ({"name": "bronze.x"}, "tables live in silver or gold"),
        ({"keys": ("A b",)}, "key 'A b' is not a column name"),
        ({"kind": tumbling("5 seconds", on="t")}, "must have window_start among them"),
        (
            {"kind": hopping("5 seconds", every="2 seconds", on="t"), "keys": ("window_start",)},
            "must be a multiple of the advance",
        ),
        ({"kind": tumbling("soon", on="t"), "keys": ("window_start",)}, "window size: 'soon'"),
    ],
)
def test_table_problems(arguments, said):
    declared = {"name": "silver.x", "inputs": {"n": "silver.n"}, "kind": Rows()} | arguments
    name = declared.pop("name")
    with pytest.raises(DefinitionError, match=said):

        @table(name, **declared)
        def anything(n):
            return n
