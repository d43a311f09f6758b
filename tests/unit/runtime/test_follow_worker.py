"""When a follower looks at its input: as soon as it may, and no more often than it was told."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from penstock.runtime.worker import FollowWorker

EVERY = dt.timedelta(seconds=30)


class Counting:
    """Takes in whatever number of rows there is."""

    def __init__(self) -> None:
        self.rows = 0
        self.taken: list[int] = []
        self.go_on = lambda batch: True

    def advance(self) -> bool:
        rows, self.rows = self.rows, 0
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
    until(lambda: worker.state == "running")
    time.sleep(0.1)  # it has looked and found nothing
    yield worker
    worker.ask_to_stop()
    worker.join()


def until(met) -> None:
    deadline = time.monotonic() + 5
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def commit(follower: Counting, worker: FollowWorker, rows: int) -> None:
    follower.rows += rows
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
