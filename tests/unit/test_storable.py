"""Whatever a row or an error says can be kept: Postgres refuses some characters and numbers."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from penstock.storable import as_json, storable


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("as it is", "as it is"),
        ("a\0b", "a\ufffdb"),
        ("\ud83d\ude00", "\ufffd\ufffd"),  # halves that Python does not see as one
        ("whole \U0001f600", "whole \U0001f600"),
    ],
)
def test_a_text_without_what_has_no_place(text, kept):
    assert storable(text) == kept
    kept.encode()


def test_a_value_in_all_its_depth():
    value = {
        "a\0": ["\0", {"b": "\ud800"}],
        "rate": float("nan"),
        "most": (float("inf"), 1.5, True, None, 3),
        7: dt.date(2026, 1, 2),
        (1, "\0"): Decimal("1.50"),
    }
    told = json.loads(as_json(value), parse_constant=pytest.fail)
    assert told == {
        "a\ufffd": ["\ufffd", {"b": "\ufffd"}],
        "rate": None,
        "most": [None, 1.5, True, None, 3],
        "7": "2026-01-02",
        "(1, '\\x00')": "1.50",
    }
