"""What was promoted is taken back by its name, when what watched it found something."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from penstock.airflow import command, releasing, tell
from penstock.airflow.command import Answer, CommandRefused

STAGED = {"releases": {"r1": ["silver.s", "gold.g"], "r2": ["gold.h"]}}
PROMOTED = {"tables": {"silver.s": "s2", "gold.g": "g2", "gold.h": "h2"}}
CONTEXT = {"params": {"automatic_rollback": True}}


@pytest.mark.parametrize("code", [2, 12, 13])
def test_a_promotion_that_is_refused_is_not_tried_again(monkeypatch, settings, code):
    ended = [sys.executable, "-c", f"raise SystemExit({code})"]
    real = command._started
    monkeypatch.setattr(command, "_started", lambda _, known: real(ended, known))
    settings.home.mkdir(parents=True)
    with pytest.raises(CommandRefused):
        command.penstock("promote", settings=settings)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def run(*arguments: str, **_: Any) -> Answer:
        found.append(arguments)
        return Answer(0, {}, ())

    monkeypatch.setattr(releasing, "penstock", run)
    for name in ("alert", "note"):
        monkeypatch.setattr(releasing, name, lambda *_, **__: None)
    return found


def test_an_automatic_rollback_is_of_what_was_promoted_and_of_no_newer_release(asked):
    with pytest.raises(AirflowFailException, match="rolled back: it lags"):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert [one[:2] for one in asked] == [
        ("rollback", "--release=r1"), ("rollback", "--release=r2"),
    ]  # fmt: skip


def test_one_that_cannot_be_taken_back_keeps_no_other_from_it(asked, monkeypatch):
    known = releasing.penstock

    def run(*arguments: str, **more: Any) -> Answer:
        told = known(*arguments, **more)
        if "--release=r1" in arguments:
            raise CommandRefused("silver.s: promoted again since then.")
        return told

    monkeypatch.setattr(releasing, "penstock", run)
    with pytest.raises(AirflowFailException, match=r"it lags.*not rolled back.*r1.*promoted again"):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert ("rollback", "--release=r2") in [one[:2] for one in asked]


def test_a_table_that_stays_held_is_told():
    told = {"tables": [{"table": "gold.g", "from": "g2", "to": "g1", "still_held": "me: wait"}]}
    assert "gold.g is still held: me: wait" in tell.swap(told)
