"""What was promoted is taken back by its name, when what watched it found something."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from penstock.airflow import releasing
from penstock.airflow.command import Answer, CommandRefused

STAGED = {"releases": {"r1": ["silver.s", "gold.g"], "r2": ["gold.h"]}}
PROMOTED = {"tables": {"silver.s": "s2", "gold.g": "g2", "gold.h": "h2"}}
CONTEXT = {"params": {"automatic_rollback": True}}


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def command(*arguments: str, **_: Any) -> Answer:
        found.append(arguments)
        return Answer(0, {}, ())

    monkeypatch.setattr(releasing, "penstock", command)
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

    def command(*arguments: str, **more: Any) -> Answer:
        told = known(*arguments, **more)
        if "--release=r1" in arguments:
            raise CommandRefused("silver.s: promoted again since then.")
        return told

    monkeypatch.setattr(releasing, "penstock", command)
    with pytest.raises(AirflowFailException, match=r"it lags.*not rolled back.*r1.*promoted again"):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert ("rollback", "--release=r2") in [one[:2] for one in asked]
