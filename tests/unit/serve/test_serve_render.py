"""Every type has one spelling, and reading it back gives the value again."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serve.render import cell, csv_line, json_array, plain, to_json, unique

VALUES = [
    (None, None),
    (True, True),
    (2**63, 2**63),
    ("naïve \x1b[31m", "naïve \x1b[31m"),
    (1.5, 1.5),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (Decimal("12345678901234567890.1200"), "12345678901234567890.1200"),
    (Decimal("1E+3"), "1000"),
    (Decimal("0.00000001"), "0.00000001"),
    (datetime(2026, 1, 1, 12, tzinfo=UTC), "2026-01-01T12:00:00Z"),
    (datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC), "2026-01-01T12:00:00.000005Z"),
    (datetime(2026, 1, 1, 12), "2026-01-01T12:00:00"),
    (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2026-01-01T12:00:00+02:00"),
    (date(2026, 1, 1), "2026-01-01"),
    (time(10, 30), "10:30:00"),
    (timedelta(seconds=90), "PT90S"),
    (timedelta(microseconds=1500), "PT0.0015S"),
    (b"\x00\xff", "AP8="),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ([1, None, b"a"], [1, None, "YQ=="]),
    ({"a": {"b": Decimal("1.0")}}, {"a": {"b": "1.0"}}),
    ({1: "x", None: "y"}, {"1": "x", "null": "y"}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[repr(v)[:30] for v, _ in VALUES])
def test_values_as_json(value: object, expected: object) -> None:
    assert plain(value) == expected
    assert json.loads(to_json(value)) == expected


def test_an_array_is_valid_json_with_any_number_of_rows() -> None:
    for rows in ([], [(1, "a")], [(1, "a"), (2, "b")]):
        text = "".join(json_array(["n", "s"], rows))
        assert json.loads(text) == [dict(zip("ns", row, strict=True)) for row in rows]
        assert text.endswith("]\n")


def test_columns_of_the_same_name_all_survive() -> None:
    assert unique(["a", "a", "a_1", "a", "b"]) == ["a", "a_1", "a_1_1", "a_2", "b"]
    assert json.loads("".join(json_array(["a", "a"], [(1, 2)]))) == [{"a": 1, "a_1": 2}]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ((1, "a"), "1,a\n"),
        ((None, ""), ',""\n'),
        (('say "hi"', "a,b"), '"say ""hi""","a,b"\n'),
        (("two\nlines", " edge "), '"two\nlines"," edge "\n'),
        ((True, False), "true,false\n"),
        ((Decimal("1.50"), b"\xff"), "1.50,/w==\n"),
        ((datetime(2026, 1, 1, tzinfo=UTC),), "2026-01-01T00:00:00Z\n"),
        (({"a": 1}, [1, 2]), '"{""a"": 1}","[1, 2]"\n'),
        ((float("nan"),), "NaN\n"),
    ],
)
def test_values_as_csv(row: tuple[object, ...], line: str) -> None:
    assert csv_line(row) == line


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_csv_reads_back(row: list[str]) -> None:
    text = csv_line(row)
    assert next(csv.reader(io.StringIO(text, newline=""), strict=True)) == row


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        ("plain", "plain"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eevil", "\\u202eevil"),
        ("日本 é", "日本 é"),
        ({"k": "\x1b"}, '{"k": "\\u001b"}'),
    ],
)
def test_data_cannot_drive_the_terminal(value: object, shown: str) -> None:
    assert cell(value) == shown
