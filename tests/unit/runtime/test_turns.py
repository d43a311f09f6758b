"""Who goes next among tables that may wait."""

from __future__ import annotations

import datetime as dt
import threading
import time

from penstock.runtime.supervise.turns import Turns, longest_wait


class Queue:
    """Somebody has the only turn; others come one after the other and want it too."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.went: list[str] = []
        self._let_go = threading.Event()
        self._threads = [self._thread("holder", 0.0)]

    def _thread(self, name: str, due: float) -> threading.Thread:
        begun = threading.Event()

        def wait_and_go() -> None:
            begun.set()
            with self.turns.one(due):
                self.went.append(name)
                if name == "holder":
                    self._let_go.wait()

        thread = threading.Thread(target=wait_and_go, daemon=True)
        thread.start()
        begun.wait()
        time.sleep(0.02)  # it stands in line
        return thread

    def comes(self, name: str, due: float) -> None:
        self._threads.append(self._thread(name, due))

    def ends(self) -> list[str]:
        self._let_go.set()
        for thread in self._threads:
            thread.join(5)
        return self.went


def test_who_is_due_first_goes_first_whoever_came_first():
    queue = Queue(Turns(1))
    for name, due in (("daily", 900.0), ("reports", 30.0), ("fraud", 1.0), ("clicks", 5.0)):
        queue.comes(name, due)
    assert queue.went == ["holder"], "one at a time"
    assert queue.ends() == ["holder", "fraud", "clicks", "reports", "daily"]


def test_of_those_due_at_once_who_came_first_goes_first():
    queue = Queue(Turns(1))
    for name in ("one", "two", "three"):
        queue.comes(name, 7.0)
    assert queue.ends() == ["holder", "one", "two", "three"]


def test_a_turn_that_does_not_end_holds_up_nobody():
    queue = Queue(Turns(1, longest=0.1))
    queue.comes("other", 9.0)
    deadline = time.monotonic() + 5
    while queue.went == ["holder"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert queue.ends() == ["holder", "other"]


def test_nobody_waits_much_longer_than_a_turn_lasts():
    queue = Queue(Turns(1, longest=60.0))
    now = time.monotonic()
    queue.comes("hourly", now + 3600)
    queue.comes("soon", now + 120)  # came later, and is due later than a whole turn from now
    assert queue.ends() == ["holder", "hourly", "soon"]


def test_who_is_waited_for_goes_at_once():
    queue = Queue(Turns(1))
    asked = threading.Event()
    asked.set()
    with queue.turns.one(1e9, asked):
        assert queue.went == ["holder"], "it still has its turn"
    queue.comes("next", 1.0)
    assert queue.ends() == ["holder", "next"], "who left the line is not waited for"


def test_a_turn_is_given_back_when_the_work_fails():
    turns = Turns(1)
    try:
        with turns.one(1.0):
            raise ValueError
    except ValueError:
        pass
    with turns.one(1.0):
        pass


def test_part_of_a_promise_is_kept_for_the_work():
    def wait(seconds: float) -> float:
        return longest_wait(dt.timedelta(seconds=seconds)).total_seconds()

    assert [wait(s) for s in (0, 1, 4, 10, 60)] == [0, 0.5, 2, 5, 55]
