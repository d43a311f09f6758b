"""Holds of the registry, carried out: who is told to go on, and what a guard has to say to it."""

from __future__ import annotations

import types

import pytest

from penstock.runtime.staging import Hold
from penstock.runtime.supervise.holds import Holds
from penstock.runtime.supervise.worker import FollowWorker


def by(held_by: str) -> dict[str, Hold]:
    return {"gold.x": Hold("gold.x", "a reason", held_by, "now")}


class Stopped:
    """A live table that a guard may stop, its worker, and who carries its holds out."""

    def __init__(self, breach: str = "") -> None:
        self.follower = types.SimpleNamespace(
            breach=breach, advance=lambda: False, release=self.release, close=lambda: None
        )
        self.worker = FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None)
        self.worker._follower, self.worker.state = self.follower, "running"
        writer = types.SimpleNamespace(live=object(), held=True)
        writers = types.SimpleNamespace(all=lambda: [("gold.x", "r", writer)])
        self.holds, self.released = Holds(writers, {"gold.x@r": self.worker}), 0

    def release(self) -> int:
        self.released += 1
        self.follower.breach = ""
        return 0

    def look(self, held: dict[str, Hold]) -> dict[str, str]:
        """A round: what is released, and what is to be written down."""
        self.holds.look(held)
        if not self.worker._orders.empty():
            self.worker._obey(self.follower)
        return self.holds.breaches()


BREACH = "a batch added 9 rows"


@pytest.mark.parametrize("who", ["quality", "alice", "quality, alice"])
def test_a_guard_that_trips_while_somebody_holds_is_written_down(who):
    table = Stopped()
    assert table.look(by(who)) == {}
    table.follower.breach = BREACH
    assert table.look(by(who)) == {"gold.x": BREACH}
    assert table.look(by(f"{who}, a guard")) == {}
    assert table.look({}) == {}, "whoever let it go could read of the guard"
    assert table.released == 1


def test_a_check_that_lets_go_does_not_show_what_a_guard_stopped():
    """It passed and released the hold in the second before the guard's was written down."""
    table = Stopped(BREACH)
    table.holds.look(by("quality"))
    table.holds.look({})
    assert table.worker._orders.empty()
    assert table.holds.breaches() == {"gold.x": BREACH}, "at once, however long its batch takes"
    assert table.look(by("a guard")) == {}
    assert table.look({}) == {}
    assert table.released == 1


def test_nor_what_one_stopped_before_the_worker_got_round_to_it():
    table = Stopped()
    table.look(by("quality"))
    table.holds.look({})
    table.follower.breach = BREACH
    table.worker._obey(table.follower)
    assert table.released == 0
    assert table.look({}) == {"gold.x": BREACH}


def test_without_a_guard_it_goes_on_when_a_check_lets_go():
    table = Stopped()
    table.look(by("quality"))
    assert table.look({}) == {}
    assert table.released == 1


def test_a_released_guard_is_not_taken_back():
    worker = FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None)
    worker._follower = types.SimpleNamespace(breach="a batch added 9 rows")
    worker.state = "running"
    writer = types.SimpleNamespace(live=object(), held=True)
    writers = types.SimpleNamespace(all=lambda: [("gold.x", "r", writer)])
    holds = Holds(writers, {"gold.x@r": worker})
    assert holds.breaches() == {"gold.x": "a batch added 9 rows"}
    holds.look(by("a guard"))
    holds.look({})  # the order waits for its worker
    assert holds.breaches() == {}
    worker._follower.breach = ""
    holds.look({})
    worker._follower.breach = "and again"
    assert holds.breaches() == {"gold.x": "and again"}


@pytest.mark.parametrize("guard", ["", "a batch added 9 rows"])
def test_a_release_that_fails_is_tried_again(guard):
    released = []

    def release() -> int:
        released.append(True)
        if len(released) == 1:
            raise OSError("the disk is full")
        worker._follower.breach = ""
        return 0

    worker = FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None)
    worker._follower = types.SimpleNamespace(
        breach=guard, advance=lambda: False, release=release, close=lambda: None
    )
    worker.state = "running"
    writer = types.SimpleNamespace(live=object(), held=True)
    writers = types.SimpleNamespace(all=lambda: [("gold.x", "r", writer)])
    holds = Holds(writers, {"gold.x@r": worker})
    holds.look(by("a guard"))
    holds.look({})
    with pytest.raises(OSError, match="full"):
        worker._obey(worker._follower)
    assert holds.breaches() == {}, "it is being released: nobody holds it anew"
    holds.look({})
    worker._obey(worker._follower)
    holds.look({})
    assert len(released) == 2
    assert worker._orders.empty(), "and once it went well, not again"


def test_a_release_waits_for_somebody_who_obeys():
    """A worker that is parked obeys nobody; the one made in its place has the same writer."""
    parked, fresh = (
        FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None) for _ in range(2)
    )
    workers = {"gold.x@r": parked}
    writer = types.SimpleNamespace(live=object(), held=False)
    writers = types.SimpleNamespace(all=lambda: [("gold.x", "r", writer)])
    holds = Holds(writers, workers)
    parked.state = "parked"
    holds.look(by("a guard"))
    holds.look({})
    assert parked._orders.empty()
    workers["gold.x@r"] = fresh
    fresh.state = "running"
    holds.look({})
    assert not fresh._orders.empty(), "live would stand still for ever, and nobody would know why"
