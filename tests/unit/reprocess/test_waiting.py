"""How long candidates are waited for, and when that is in vain."""

from __future__ import annotations

import types

import pytest

from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.reprocess import stage, waiting
from penstock.reprocess.status import Status
from penstock.reprocess.waiting import wait_ready
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Build, Candidate, How


def status(table: str, state: str) -> Status:
    return Status(table, "r2", "r1", state, How.BATCH, None, None, {"error": "division by zero"})


class Life:
    """What is seen at each look; a look is a second."""

    def __init__(self, *looks: list[Status]) -> None:
        self.looks, self.now, self.age = list(looks), 0.0, 0.0

    def statuses(self, *_: object) -> list[Status]:
        return self.looks[min(int(self.now), len(self.looks) - 1)]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def lives(monkeypatch):
    def through(*looks: list[Status]) -> Life:
        life = Life(*looks)
        clock = types.SimpleNamespace(monotonic=lambda: life.now, sleep=life.sleep)
        monkeypatch.setattr(waiting, "statuses", life.statuses)
        monkeypatch.setattr(waiting, "time", clock)
        beat = types.SimpleNamespace(age_seconds=0.0)
        monkeypatch.setattr(waiting.heartbeat, "read", lambda settings: beat)
        life.beat = beat
        return life

    return through


def test_until_all_are_ready(lives):
    busy, ready = status("a", "catching-up"), status("a", "ready")
    life = lives([busy, status("b", "ready")], [busy], [ready, status("b", "ready")])
    assert len(wait_ready(None, None, "r1")) == 2
    assert life.now == 2


def test_what_is_staged_no_more_is_not_waited_for(lives):
    life = lives([status("a", "catching-up")], [])
    with pytest.raises(UsageError, match="promoted or given up") as caught:
        wait_ready(None, None, "r1")
    assert life.now == 1
    assert "again" in caught.value.remedy


def test_one_that_failed_and_a_supervisor_that_is_gone(lives):
    lives([status("a", "failed")])
    with pytest.raises(PenstockError, match="division by zero"):
        wait_ready(None, None, "r1")
    lives([status("a", "catching-up")]).beat.age_seconds = 1e6
    with pytest.raises(NotRunning) as caught:
        wait_ready(None, None, "r1")
    assert "type the command again" in caught.value.remedy


def test_what_goes_on_by_itself_is_waited_for_so_long(lives):
    lives([status("a", "catching-up")])
    with pytest.raises(PenstockError, match="not ready after 60 s") as caught:
        wait_ready(None, None, "r1", seconds=60)
    assert "by itself" in caught.value.remedy


def test_a_build_waits_for_what_it_reads_for_as_long_as_that_takes(lives, monkeypatch, settings):
    """It does not go on by itself: whoever gave up after an hour had to type it again."""
    staged = [
        Candidate("silver.a", "a2", "r1", How.FOLLOW, Build.BUILT),
        Candidate("gold.b", "b2", "r1", How.BATCH),
    ]
    known = [
        Revision("silver.a", "a2", State.CANDIDATE, "", {"bronze.a": ""}),
        Revision("gold.b", "b2", State.CANDIDATE, "", {"silver.a": "a2"}),
    ]
    book = types.SimpleNamespace(
        candidates=lambda release=None: staged, revisions=lambda **_: known, tell=lambda *a, **k: 0
    )
    monkeypatch.setattr(stage, "Staging", lambda registry: book)
    life = lives(*[[status("silver.a", "catching-up")]] * 9000, [status("silver.a", "ready")])
    built = []
    stager = stage.Stager(None, settings, book)
    stager._build = lambda candidate, *_: built.append((candidate.table, life.now))
    stager.build("r1", lambda *_: None)
    assert built == [("gold.b", 9000)]
