"""Answers of several supervisors read as one."""

from __future__ import annotations

from penstock.cli.asking import _joined


def test_one_answer_is_left_as_it_is() -> None:
    told = {"tables": [{"table": "a"}], "held_seconds": 0.2, "pins": {}}
    assert _joined({}, told) == told


def test_answers_of_two_are_those_of_one_that_had_it_all() -> None:
    first = {"tables": [1], "prepared_seconds": 1.25, "pins": {"a": 1}, "report": "r"}
    second = {"tables": [2, 3], "prepared_seconds": 0.5, "pins": {"b": 2}}
    assert _joined(first, second) == {
        "tables": [1, 2, 3],
        "prepared_seconds": 1.75,
        "pins": {"a": 1, "b": 2},
        "report": "r",
    }
