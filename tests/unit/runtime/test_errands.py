"""Tasks are given to who can carry them out, and what came of them is told."""

from __future__ import annotations

import types

import pytest

from penstock.runtime.registry import State, Task
from penstock.runtime.supervise.errands import Errands
from penstock.runtime.supervise.supervisor import Supervisor
from penstock.runtime.supervise.worker import FollowWorker


def taken(number: int) -> bool:
    return True


TASK = Task(7, "gold.x", "reconcile", {})


@pytest.fixture
def worker() -> FollowWorker:
    made = FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None)
    made.state = "running"
    return made


@pytest.fixture
def errands(worker) -> Errands:
    live = types.SimpleNamespace(state=State.LIVE)
    writers = types.SimpleNamespace(revisions={("gold.x", "r"): live})
    streams = types.SimpleNamespace(writers=writers, workers={"gold.x@r": worker})
    return Errands(streams, lambda table: True, 1)


def test_a_worker_that_leaves_is_given_nothing(errands, worker):
    worker.ask_to_stop()
    errands.hand_out([TASK], taken)
    assert worker._orders.empty(), "the one that comes after it will do it"
    worker._stopping.clear()
    errands.hand_out([TASK], taken)
    assert not worker._orders.empty()


@pytest.mark.parametrize("verb", ["reconcile", "swap"])
def test_what_was_taken_back_is_not_begun(errands, worker, verb):
    given = []
    errands._operator_thread = lambda: types.SimpleNamespace(give=given.append)
    task = Task(7, "gold.x", verb, {})
    asked = []

    def take(number: int) -> bool:
        asked.append(number)
        return False

    errands.hand_out([task], take)
    assert worker._orders.empty()
    assert (given, errands.busy) == ([], False)
    errands.hand_out([task], taken)
    assert worker._orders.empty() == bool(given), "taken, it is given to who does such things"
    errands.hand_out([task], take)
    assert asked == [7], "it is taken once"


@pytest.mark.parametrize("ours", [True, False])
def test_what_stopping_left_undone_is_told_unless_somebody_else_is_at_it(errands, worker, ours):
    errands.hand_out([TASK], taken)
    worker._leave()
    told = []
    supervisor = types.SimpleNamespace(
        shares=types.SimpleNamespace(renew=lambda: ours),
        _tell_answers=lambda found: told.extend(found.answers()),
    )
    Supervisor._tell_the_rest(supervisor, errands)
    answer = (7, {"error": "it stopped before this was begun"}, True)
    assert told == ([answer] if ours else [])
