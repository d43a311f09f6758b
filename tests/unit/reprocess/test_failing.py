"""A revision that fails and tries again for ever is not waited for: it is said what to type."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator

import pytest

from penstock.errors import PenstockError, UsageError
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise import standing as stands
from penstock.runtime.supervise import worker as workers
from penstock.runtime.supervise import world as worlds
from penstock.runtime.supervise.standing import Move, standing
from penstock.runtime.supervise.standstill import Standstill
from penstock.runtime.supervise.streams import Streams
from penstock.runtime.supervise.worker import FollowWorker
from tests.unit.reprocess.operated import Idle

NAME, OWN = "gold.x", "gold.x@X"
WAY_OUT = r"`penstock streams stop gold\.x@X`, then type this again"


class Fails(Idle):
    """A follower that cannot take in what it reads; the first times it may."""

    def __init__(self, fine: int = 0) -> None:
        self.fine = fine

    def advance(self, until=None) -> bool:
        self.fine -= 1
        if self.fine < 0:
            raise ValueError("no space left")
        return False


@pytest.fixture
def run() -> Iterator[Callable[..., FollowWorker]]:
    """A worker that runs; ended with the test."""
    made: list[FollowWorker] = []

    def start(make: Callable[[], Fails], name: str = OWN) -> FollowWorker:
        worker = FollowWorker(name, make, lambda: None, lambda: None)  # type: ignore[arg-type]
        made.append(worker)
        worker.start()
        return worker

    yield start
    for worker in made:
        worker.ask_to_stop()
        worker.join()


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def streams(settings, monkeypatch) -> Streams:
    monkeypatch.setattr(worlds, "_STARTING", 20.0)
    shares = types.SimpleNamespace(answers_for=lambda table: True, slot=1, held={NAME: 1})
    return Streams(None, settings, shares, lambda: None)


def test_one_that_fails_once_more_is_not_waited_for(streams, run, monkeypatch):
    monkeypatch.setattr(workers, "_FIRST_WAIT", 0.3)
    streams.workers[OWN] = worker = run(begins_and_fails)
    until(lambda: worker.state == "waiting")
    began = time.monotonic()
    with pytest.raises(UsageError, match=f"no space left.*{WAY_OUT}"):
        streams.world.worker(NAME, "X")
    assert time.monotonic() - began < 5


def begins_and_fails() -> Fails:
    raise ValueError("no space left")  # seen as running now and then it would be taken for well


def test_one_that_failed_once_is_waited_for_until_it_has_tried_again(streams, run, monkeypatch):
    monkeypatch.setattr(workers, "_FIRST_WAIT", 0.5)
    tries = iter([0, 10_000])
    streams.workers[OWN] = worker = run(lambda: Fails(next(tries)))
    until(lambda: worker.state == "waiting")
    assert streams.world.worker(NAME, "X") is worker
    assert worker.state == "running"


def test_one_that_is_asked_for_while_it_stops_is_said_to_be_stopped(streams, run):
    """The supervisor follows a `penstock streams stop` within a second or two."""
    streams.workers[OWN] = worker = run(begins_and_fails)
    until(lambda: worker.state == "waiting")
    streams.idle = frozenset([OWN])
    worker.ask_to_stop()
    with pytest.raises(UsageError, match=r"is stopped.*type this again"):
        streams.world.worker(NAME, "X")


def test_one_that_is_asked_to_stand_and_fails_over_it_is_told_with_the_way_out(run):
    worker = run(lambda: Fails(1))
    until(lambda: worker.state == "running")
    with pytest.raises(PenstockError, match=f"did not come to a stand.*no space left.*{WAY_OUT}"):
        Standstill(worker).arrived(10)


def test_one_that_waits_for_its_next_try_keeps_nobody_standing(run, monkeypatch):
    monkeypatch.setattr(workers, "_FIRST_WAIT", 1.0)
    tries = iter([0, 10_000])
    worker = run(lambda: Fails(next(tries)))
    until(lambda: worker.state == "waiting")
    began = time.monotonic()
    with pytest.raises(PenstockError, match=f"no space left.*{WAY_OUT}"):
        Standstill(worker).arrived(30)
    assert time.monotonic() - began < 0.9
    until(lambda: worker.state == "running" and worker._orders.empty())
    time.sleep(0.1)
    assert (worker.state, worker.failures) == ("running", 0), "what was asked of it harms nothing"


def test_nobody_stands_while_another_is_waited_for(monkeypatch):
    asked: list[str] = []
    stood: list[str] = []

    def worker(table: str, revision: str) -> FollowWorker:
        asked.append(f"{table}@{revision}")
        if asked[-1] == "gold.y@W":
            raise UsageError("gold.y@W fails and tries again.")
        return types.SimpleNamespace(name=asked[-1])  # type: ignore[return-value]

    monkeypatch.setattr(stands, "Standstill", lambda worker, _: stood.append(worker.name))
    world = types.SimpleNamespace(worker=worker, parked=lambda *_: False)
    moves = [
        Move(t, Revision(t, "X", State.LIVE, "b", {}), Revision(t, "W", State.WARM, "b", {}))
        for t in ("gold.x", "gold.y")
    ]
    with pytest.raises(UsageError, match="fails and tries again"), standing(world, moves):
        raise AssertionError
    assert asked == ["gold.x@W", "gold.x@X", "gold.y@W"]
    assert stood == []
