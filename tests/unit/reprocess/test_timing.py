"""Which column an interval is about, where nobody says, and when that cannot be known."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.model import Enrich, Group, Rows, session, table
from penstock.reprocess.timing import Timing


@table("gold.g", inputs={"a": "silver.a", "b": "silver.b"}, kind=Group(by=("k",)), keys=("k",))
def grouped(a, b):
    return a


@table("gold.r", inputs={"a": "silver.a"}, kind=Rows())
def mapped(a):
    return a


@table("gold.e", inputs={"a": "silver.a", "b": "silver.b"}, kind=Enrich(by=("k",), on="paid_at"),
       keys=("k",))  # fmt: skip
def enriched(a):
    return a


@table("gold.s", inputs={"a": "silver.a"}, kind=session("1 hour", by=("k",), on="t"),
       keys=("k", "window_start"))  # fmt: skip
def sessions(a):
    return a


def test_each_input_has_the_column_that_its_definition_declares():
    timing = Timing(grouped, {"silver.a": "window_start", "silver.b": "valid_from"})
    assert timing.of_input("a", ["frame", "window_start", "window_end"]) == "window_start"
    assert timing.of_input("b", ["updated_at", "valid_from", "valid_to"]) == "valid_from"


@pytest.mark.parametrize("times", [
    ["at"], ["at", "window_end"], ["valid_from", "at", "valid_to"], ["window_start", "window_end"],
])  # fmt: skip
def test_else_the_only_one_that_says_when(times):
    (wanted,) = {"at", "window_start"} & set(times)
    assert Timing(grouped, {"silver.a": "renamed"}).of_input("a", times) == wanted
    assert Timing(mapped).of_rows(times) == wanted


def test_one_that_is_alone_is_meant_whatever_its_name():
    assert Timing(mapped).of_rows(["window_end"]) == "window_end"


@pytest.mark.parametrize("times", [["sent_at", "seen_at"], ["valid_from", "valid_to"]])
def test_several_are_named(times):
    with pytest.raises(UsageError, match=", ".join(times)) as caught:
        Timing(grouped).of_input("a", times)
    assert "--on COLUMN" in caught.value.remedy


def test_none_at_all_takes_the_whole_table():
    with pytest.raises(UsageError, match=r"gold\.g: b has no time column") as caught:
        Timing(grouped).of_input("b", [])
    assert "penstock backfill gold.g --all" in caught.value.remedy


def test_what_is_asked_for_is_taken_or_refused():
    timing = Timing(grouped, {"silver.a": "window_start"})
    assert timing.of_input("a", ["window_start", "window_end"], "window_end") == "window_end"
    with pytest.raises(UsageError, match="no time column 'nope'") as caught:
        timing.of_input("a", ["window_start", "window_end"], "nope")
    assert "window_start, window_end" in caught.value.remedy


def test_facts_and_sessions_have_the_time_of_their_kind():
    assert Timing(enriched).of_rows(["rules_from", "paid_at"]) == "paid_at"
    assert Timing(enriched).of_rows(["rules_from", "paid_at"], "rules_from") == "rules_from"
    assert Timing(sessions).of_rows(["first", "window_start"]) == "window_start"
    with pytest.raises(UsageError, match="'paid_at'"):
        Timing(enriched).of_rows(["rules_from"])
