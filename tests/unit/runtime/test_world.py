"""What operations see of the streams: never another slot's tokens, and no restart too many."""

from __future__ import annotations

import types
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.runtime.supervise.streams import Streams


@pytest.fixture
def streams(settings) -> Streams:
    shares = types.SimpleNamespace(held={"gold.x": 3}, slot=1, answers_for=lambda table: True)
    return Streams(None, settings, shares, lambda: None)  # type: ignore[arg-type]


def test_who_is_still_at_work_when_the_slot_is_lost_gets_no_token_of_the_next(streams):
    world = streams.world
    assert world.token_of("gold.x") == 3
    streams.stop()
    streams.shares.held["gold.x"] = 4  # the slot was taken again
    for ask in (world.token_of, streams.token_of, streams.world.token_of):
        with pytest.raises(PenstockError, match=r"gold\.x.*slot"):
            ask("gold.x")
    assert not world.answers_for("gold.x")


def test_while_it_stops_what_is_in_hand_is_finished_under_its_own_token(streams):
    seen = []
    worker = types.SimpleNamespace(
        ask_to_stop=lambda: None, join=lambda: seen.append(streams.token_of("gold.x"))
    )
    streams.workers["gold.x@r"] = worker  # type: ignore[assignment]
    streams.stop()
    assert seen == [3]


def worker(state: str) -> Any:
    return types.SimpleNamespace(state=state, ended=state == "parked")


def park(found: Any) -> None:
    found.state, found.ended = "parked", True


def test_a_running_worker_that_parks_after_a_repair_stays_parked(streams):
    streams.workers |= {"gold.x@r": worker("running"), "gold.y@r": worker("running")}
    streams._readers["gold.x@r"] = ["gold.y@r"]
    streams.world.restart("gold.x", "r")
    for found in streams.workers.values():
        park(found)
    streams._bury()
    assert streams.workers.keys() == {"gold.x@r", "gold.y@r"}


def test_parked_workers_are_made_anew_after_a_repair(streams):
    streams.workers |= {"gold.x@r": worker("parked"), "gold.y@r": worker("parked")}
    streams._readers["gold.x@r"] = ["gold.y@r"]
    streams.world.restart("gold.x", "r")
    streams._bury()
    assert streams.workers == {}


def test_nobody_is_told_to_leave_who_is_not_there(streams):
    streams.world.restart("gold.x", "r")
    streams.workers["gold.x@r"] = worker("parked")
    streams._bury()
    assert streams.workers.keys() == {"gold.x@r"}
