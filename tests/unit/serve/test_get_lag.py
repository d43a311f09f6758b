"""How far behind a table is: told if somebody knows, and nobody waits for it."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.runtime import heartbeat
from penstock.serve import lag as lag_module
from penstock.serve.lag import Lag
from penstock.settings import Settings


class Beat:
    pid, state = 1, "running"

    def __init__(self, age: float = 1.0) -> None:
        self.age_seconds = age
        self.streams = [
            {"stream": "gold.a@r1", "table": "gold.a", "revision": "r1", "behind": 2},
            {"stream": "gold.a@r2", "table": "gold.a", "revision": "r2", "behind": 9},
            {"stream": "bronze.t", "table": "bronze.t", "behind": 40},
            {"stream": "bronze.u", "table": "bronze.u", "behind": None},
        ]


def test_of_each_revision_its_own(settings: Settings) -> None:
    lag = Lag(settings, lambda _: Beat())
    told = [lag.behind(*name, wait_s=5) for name in (("gold.a", "r1"), ("gold.a", "r2"))]
    assert told == [2, 9]
    assert (lag.behind("bronze.t", None), lag.behind("bronze.u", None)) == (40, None)
    assert lag.behind("gold.a", "r3") is None


def test_an_old_beat_says_nothing(settings: Settings) -> None:
    stale = heartbeat.STALE_AFTER + 1
    for read in (lambda _: None, lambda _: Beat(stale)):
        assert Lag(settings, read).behind("gold.a", "r1", wait_s=5) is None


def test_what_was_known_is_forgotten_in_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = iter([Beat()])
    lag = Lag(settings, lambda _: next(beats, None))
    assert lag.behind("gold.a", "r1", wait_s=5) == 2
    monkeypatch.setattr(lag_module, "_OLD_S", 0.0)
    assert lag.behind("gold.a", "r1") is None


def test_nobody_waits_for_a_registry_that_does_not_answer(settings: Settings) -> None:
    answer = threading.Event()
    lag = Lag(settings, lambda _: answer.wait(10) and None)
    began = time.monotonic()
    assert [lag.behind("gold.a", "r1") for _ in range(50)] == [None] * 50
    assert time.monotonic() - began < 5
    answer.set()


def test_without_a_platform_there_is_no_answer_and_no_error(settings: Settings) -> None:
    assert Lag(settings).behind("gold.a", "r1", wait_s=10) is None
