"""When a follower looks at its input: on time for the oldest row, and no more often than that."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.errors import TransformError
from penstock.runtime.supervise.turns import longest_wait
from penstock.runtime.supervise.worker import FollowWorker, Order

EVERY = dt.timedelta(seconds=30)
WAIT = longest_wait(EVERY).total_seconds()


class Counting:
    """Takes in whatever number of rows there is."""

    def __init__(self) -> None:
        self.rows = 0
        self.born: float | None = None
        self.taken: list[int] = []
        self.looks = 0
        self.go_on = lambda batch: True

    def waiting_since(self) -> float | None:
        return self.born

    def advance(self) -> bool:
        self.looks += 1
        rows, self.rows, self.born = self.rows, 0, None
        self.taken += [rows] if rows else []
        return rows > 0

    def close(self) -> None: ...


@pytest.fixture
def follower() -> Counting:
    return Counting()


@pytest.fixture
def worker(follower: Counting) -> Iterator[FollowWorker]:
    worker = FollowWorker("x", lambda: follower, lambda: None, lambda: None, every=EVERY)
    worker.start()
    until(lambda: follower.looks == 1)  # it has looked and found nothing
    yield worker
    worker.ask_to_stop()
    worker.join()


def until(met) -> None:
    deadline = time.monotonic() + 5
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def commit(follower: Counting, worker: FollowWorker, rows: int, age: float = 0.0) -> None:
    follower.rows += rows
    born = time.monotonic() - age
    follower.born = born if follower.born is None else min(born, follower.born)
    worker.wake()


def test_what_found_nothing_goes_as_soon_as_its_input_commits(follower, worker):
    commit(follower, worker, 3)
    until(lambda: follower.taken == [3])


def test_what_has_just_taken_something_in_lets_the_next_rows_wait(follower, worker):
    commit(follower, worker, 3)
    until(lambda: follower.taken == [3])
    commit(follower, worker, 4)
    time.sleep(0.5)
    assert follower.taken == [3]
    assert follower.rows == 4
    assert follower.looks == 2, "waking it for rows that may wait costs no look"


def test_rows_that_waited_in_the_tables_below_do_not_wait_again(follower, worker):
    commit(follower, worker, 3)
    until(lambda: follower.taken == [3])
    commit(follower, worker, 4, age=WAIT)
    until(lambda: follower.taken == [3, 4])


def test_rows_that_are_late_already_are_taken_in_together(follower, worker):
    commit(follower, worker, 3)
    until(lambda: follower.taken == [3])
    for _ in range(5):
        commit(follower, worker, 1, age=10 * WAIT)
    time.sleep(0.3)
    assert follower.taken == [3], "else an overload would be made of the smallest batches"
    worker._took -= WAIT / 4
    worker.wake()
    until(lambda: follower.taken == [3, 5])


def test_a_continuous_table_waits_for_nothing(follower):
    worker = FollowWorker("x", lambda: follower, lambda: None, lambda: None)
    worker.start()
    for rows in (3, 4, 5):
        commit(follower, worker, rows)
        until(lambda: not follower.rows)
    worker.ask_to_stop()
    worker.join()
    assert follower.taken == [3, 4, 5]


def ordered(worker: FollowWorker) -> list[str]:
    """An order, and what is said of its failing."""
    failed: list[str] = []
    worker.order(Order(lambda follower: {}, lambda result: None, failed.append))
    return failed


def test_what_waits_for_a_batch_when_it_is_told_to_stop_is_not_forgotten(follower):
    in_hand, go_on = threading.Event(), threading.Event()

    def batch() -> bool:
        in_hand.set()
        go_on.wait(5)
        return False

    follower.advance = batch
    worker = FollowWorker("x", lambda: follower, lambda: None, lambda: None)
    worker.start()
    assert in_hand.wait(5)
    failed = ordered(worker)
    worker.ask_to_stop()
    assert worker.stopping
    go_on.set()
    worker.join()
    assert failed == ["it stopped before this was begun"]
    assert ordered(worker) == failed, "who comes later hears it at once"


@pytest.fixture
def throttled(follower) -> Iterator[FollowWorker]:
    """A candidate that has a long way to go, at so small a pace that it rests nearly always."""
    far = threading.Event()

    def advance() -> bool:
        while not far.wait(0.05) and follower.go_on(None):
            follower.taken.append(1)
        return True

    follower.advance = advance
    worker = FollowWorker("x", lambda: follower, lambda: None, lambda: None)
    worker.share = 0.001
    yield worker
    far.set()
    worker.ask_to_stop()
    worker.join()


def test_a_throttled_candidate_rests_no_longer_than_until_it_is_asked(follower, throttled):
    throttled.start()
    time.sleep(0.3)
    assert len(follower.taken) < 2, "it rests"
    done = threading.Event()
    throttled.share = 1.0  # only the rest it is in is in the way
    throttled.order(Order(lambda f: {}, lambda result: done.set(), lambda error: None))
    throttled.order(Order(lambda f: {}, lambda result: None, lambda error: None))
    assert done.wait(5)


def test_nor_does_it_rest_over_what_it_has_in_hand(follower, throttled):
    """An order that was taken out of the queue is waited for no less."""
    done = threading.Event()
    throttled._obeying = True
    throttled._began = time.monotonic() - 60  # idle till then: that is no work to rest from
    began = time.monotonic()
    assert throttled._go_on(None)
    assert time.monotonic() - began < 1
    throttled._obeying = False
    follower.advance = lambda: follower.go_on(None)
    throttled.order(Order(lambda f: {}, lambda result: done.set(), lambda error: None))
    throttled.start()
    assert done.wait(5)


def test_what_waits_behind_an_order_that_parks_it_is_not_forgotten(follower):
    worker = FollowWorker("x", lambda: follower, lambda: None, lambda: None)

    def breaks() -> bool:
        raise TransformError("a row that nobody can isolate")

    follower.advance = breaks
    first, second = ordered(worker), ordered(worker)
    worker.start()
    worker.join()
    assert worker.state == "parked"
    assert "nobody can isolate" in first[0]
    assert second == ["it stopped before this was begun"]
