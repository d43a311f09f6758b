"""`penstock run` is done when everything is taken in, whatever else is asked meanwhile."""

from __future__ import annotations

import queue
import threading
import types

import pytest

from penstock.errors import PenstockError
from penstock.runtime.supervise.tasks import VERBS
from penstock.runtime.supervise.worker import FollowWorker, Order

END = 5
TOLD = 10.0


class Long:
    """A follower with a long way to go, a commit at a time."""

    name = "gold.x"

    def __init__(self) -> None:
        self.positions = {"silver.y": 0}
        self.writer = types.SimpleNamespace(log=types.SimpleNamespace(version=7))
        source = types.SimpleNamespace(log=types.SimpleNamespace(version=END))
        self.inputs = {"y": types.SimpleNamespace(name="silver.y", source=source)}
        self.stuck = self.settled = False
        self.begun = threading.Event()
        self.batch = threading.Event()
        self.batch.set()
        self.go_on = lambda batch: True
        self.stopping = lambda: False

    @property
    def behind(self) -> int:
        return END - self.positions["silver.y"]

    def waiting_since(self) -> None:
        return None

    def advance(self) -> bool:
        while self.behind and not self.stuck:
            self.begun.set()
            self.batch.wait(TOLD)
            self.positions["silver.y"] += 1
            if not self.go_on(None):
                break
        return True

    def settle(self, *, now: bool = False) -> None:
        self.settled = now

    def close(self) -> None:
        return


@pytest.fixture
def follower() -> Long:
    return Long()


@pytest.fixture
def worker(follower):
    """Of a table that takes nothing in unless it is asked to."""
    made = FollowWorker("gold.x@r", lambda: follower, lambda: None, lambda: None, every=None)
    yield made
    made.ask_to_stop()
    made.join()


def asked(worker: FollowWorker, run) -> queue.Queue:
    told: queue.Queue = queue.Queue()
    worker.order(Order(run, told.put, told.put))
    return told


def test_the_whole_backlog_is_in_although_something_else_waits(worker, follower):
    run = asked(worker, lambda table: VERBS["run"](table, {}))
    other = asked(worker, lambda table: {"then": follower.behind})
    worker.start()
    assert run.get(timeout=TOLD) == {"version": 7, "behind": 0}
    assert follower.settled
    assert other.get(timeout=TOLD) == {"then": 0}


def test_who_is_told_to_stop_does_not_say_that_it_is_done(worker, follower):
    follower.batch.clear()
    run = asked(worker, lambda table: VERBS["run"](table, {}))
    worker.start()
    assert follower.begun.wait(TOLD)
    worker.ask_to_stop()
    follower.batch.set()
    told = run.get(timeout=TOLD)
    assert "gold.x was told to stop, 4 commits of its inputs before the end" in told
    assert follower.behind == 4, "it left after the batch in hand"


def test_a_table_that_gets_nowhere_is_told(follower):
    follower.stuck = True
    with pytest.raises(PenstockError, match=r"takes in nothing, 5 commits"):
        VERBS["run"](follower, {})


def test_what_comes_meanwhile_is_for_the_next_run(follower):
    ends = iter(range(END, 100))  # another commit with every look: it would never be done
    log = type("Log", (), {"version": property(lambda self: next(ends))})()
    follower.inputs["y"].source = types.SimpleNamespace(log=log)
    follower.go_on = lambda batch: False
    VERBS["run"](follower, {})
    assert follower.positions == {"silver.y": END}
