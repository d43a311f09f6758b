"""What forms let through, and what reaches a command of what they let through."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from penstock.airflow import forms
from tests.injections import CORPUS

TABLES = ["gold.sensor_5m", "gold.stock_stats"]
GOOD: dict[str, list[Any]] = {
    "tables": [["gold.stock_stats"], TABLES],
    "table": ["gold.stock_stats"],
    "reason": ["calibration is no measurement", "p99 asked for (ticket #12)", "Größe fehlt: 50%"],
    "start": ["BEGINNING", "2026-11-01", "2026-11-01T00:00Z", "7 days", "1 hour"],
    "day": [None, "", "2026-11-01"],
    "tolerances": [None, [], ["mean_value=0.01", "n=1"]],
    "expected": [
        [],
        ["new.readings < old.readings => calibration is left out"],
        [
            "old.a is null and new.b >= 10 => new rows",
            "new.side = 'buy' or old.x <> -1.5 => other sides",
        ],
    ],
    "rollup": [
        None,
        "",
        "sensor_id => sum(readings) as readings",
        "a, b => min(c) as d, count(e) as f",
    ],
    "rows": [[], ["trades/2a_bc-D/0/17", "9f86d081884c7d659a2feaa0c55ad015"]],
    "number": [0, 0.5, 1],
    "whole": [0, 10],
    "flag": [True, False],
    "targets": [["duckdb"], ["duckdb", "parquet"]],
}
FIELDS = {
    "tables": forms.tables(TABLES, "x"),
    "table": forms.table(TABLES, "x"),
    "reason": forms.reason(),
    "start": forms.moment("BEGINNING", "x", "x"),
    "day": forms.day_or_none("x"),
    "tolerances": forms.tolerance_list(),
    "expected": forms.condition_list(),
    "rollup": forms.rollup(),
    "rows": forms.row_ids(),
    "number": forms.number(0.5, 0, 1, "x", "x"),
    "whole": forms.whole(1, 0, 10, "x", "x"),
    "flag": forms.flag(True, "x", "x"),
    "targets": forms.targets(),
}


def accepted(field: str, value: Any) -> bool:
    try:
        jsonschema.validate(value, FIELDS[field].schema, format_checker=jsonschema.FormatChecker())
    except jsonschema.ValidationError:
        return False
    return True


def test_the_corpus_is_as_long_as_promised() -> None:
    assert len(set(CORPUS)) >= 200


@pytest.mark.parametrize("field", FIELDS)
def test_what_people_mean_is_let_through(field: str) -> None:
    for value in GOOD[field]:
        assert accepted(field, value), value


@pytest.mark.parametrize("field", FIELDS)
def test_nothing_of_the_corpus_is_let_through(field: str) -> None:
    passed = [text for text in CORPUS if accepted(field, text) or accepted(field, [text])]
    assert passed == []


def test_a_text_of_two_lines_is_no_reason() -> None:
    assert accepted("reason", "one line")
    for text in (
        "one",
        "one  line",
        "one line ",
        "one line\n",
        "one\nline",
        "one\rline",
        "one\x00line",
        "one\u2028line",
    ):
        assert not accepted("reason", text), repr(text)


def test_with_nothing_registered_nothing_can_be_chosen() -> None:
    schema = forms.tables([], "x").schema
    for value in (["gold.stock_stats"], [""], "x"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)
