"""What was promoted is taken back by its name, when what watched it found something."""

from __future__ import annotations

import datetime as dt
import sys
import types
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from penstock.airflow import command, releasing, tell
from penstock.airflow.command import Answer, CommandFailed, CommandRefused, TaskStopped
from penstock.runtime.heartbeat import STALE_AFTER

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


@pytest.fixture
def broken(asked, monkeypatch) -> dict[str, list[Exception]]:
    """What rolling a release back comes to, try after try; then it succeeds."""
    found: dict[str, list[Exception]] = {}
    known = releasing.penstock

    def run(*arguments: str, **more: Any) -> Answer:
        told = known(*arguments, **more)
        if left := found.get(arguments[1].removeprefix("--release=")):
            raise left.pop(0)
        return told

    monkeypatch.setattr(releasing, "penstock", run)
    monkeypatch.setattr(releasing, "_ANOTHER_TRY", 0.0)
    return found


def test_one_whose_rollback_fails_twice_keeps_no_other_from_it(asked, broken, monkeypatch):
    notes: list[str] = []
    monkeypatch.setattr(releasing, "note", lambda _, title, text: notes.append(text))
    broken["r1"] = [CommandFailed("no registry"), CommandFailed("gold.g did not come to a stand")]
    with pytest.raises(AirflowFailException, match=r"not rolled back: r1: gold\.g did not come"):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert [one[1] for one in asked] == ["--release=r1", "--release=r1", "--release=r2"]
    assert "did not come to a stand" in notes[0]


def test_a_rollback_that_fails_once_is_tried_again_and_one_that_is_refused_is_not(asked, broken):
    broken |= {"r1": [CommandFailed("no registry")], "r2": [CommandRefused("promoted again")]}
    with pytest.raises(AirflowFailException, match=r"not rolled back: r2: promoted again$"):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert [one[1] for one in asked] == ["--release=r1", "--release=r1", "--release=r2"]


def test_a_task_that_is_told_to_stop_begins_nothing_more(asked, broken):
    broken["r1"] = [TaskStopped("told to stop")]
    with pytest.raises(TaskStopped):
        releasing.verdict(CONTEXT, STAGED, PROMOTED, ["it lags"])
    assert len(asked) == 1


@pytest.fixture
def look(monkeypatch, settings):
    """The watch after a promote: how old the last sign of life is, and how long ago it went live.

    Ten minutes are to be watched; a stream that runs well is all that anybody said.
    """

    def watched(age: float | None, minutes: float) -> list[str] | None:
        streams = [{"stream": f"{t}@{r}", "state": "running"} for t, r in tables.items()]
        beat = types.SimpleNamespace(age_seconds=age, state="running", streams=streams)
        monkeypatch.setattr(releasing.heartbeat, "read", lambda _: beat if age else None)
        at = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)
        context = {"params": {"most_behind": 100, "watch_minutes": 10}}
        return releasing.watched(context, {"at": at.isoformat(), "tables": tables})

    tables = PROMOTED["tables"]
    monkeypatch.setattr(releasing.Settings, "load", lambda: settings)
    monkeypatch.setattr(releasing, "_held", lambda _: {})
    return watched


def test_the_watch_ends_when_a_supervisor_that_lives_says_all_is_well(look):
    assert look(1.0, 5) is None
    assert look(1.0, 11) == []


@pytest.mark.parametrize("age", [None, STALE_AFTER + 1])
def test_what_a_dead_supervisor_said_last_is_not_that_all_is_well(look, age):
    assert look(age, 5) is None, "it may only be starting anew: it is looked at again"
    assert look(age, 11) is None
    (found,) = look(age, 16)
    assert "the stream supervisor" in found


def test_a_table_that_stays_held_is_told():
    told = {"tables": [{"table": "gold.g", "from": "g2", "to": "g1", "still_held": "me: wait"}]}
    assert "gold.g is still held: me: wait" in tell.swap(told)
