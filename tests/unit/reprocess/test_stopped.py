"""A revision that was stopped, or whose code is gone, needs no part in being taken back."""

from __future__ import annotations

import threading
import time
import types

import pytest

from penstock.errors import DefinitionError, UsageError
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise import world as worlds
from penstock.runtime.supervise.streams import Streams
from penstock.runtime.supervise.worker import FollowWorker
from tests.unit.reprocess.operated import Idle

NAME, X, W = "gold.x", "gold.x@X", "gold.x@W"
REVISIONS = [
    Revision(NAME, "X", State.LIVE, "b", {}), Revision(NAME, "W", State.WARM, "b", {}),
]  # fmt: skip


@pytest.fixture
def streams(settings, monkeypatch):
    def want(self, revision, wanted, topics):
        own = f"{revision.table}@{revision.revision}"
        if revision.revision in broken:
            raise DefinitionError("its bundle is gone")
        wanted[own] = lambda: FollowWorker(own, Idle, lambda: None, lambda: None)

    broken: set[str] = set()
    monkeypatch.setattr(Streams, "_want", want)
    monkeypatch.setattr(worlds, "_LEAVING", 0.3)
    shares = types.SimpleNamespace(answers_for=lambda table: True, slot=1, held={NAME: 1})
    made = Streams(None, settings, shares, lambda: None)
    made.code_is_gone_of = broken
    yield made
    made.stop()


def look(streams, **wishes: bool) -> None:
    """A round: what was stopped leaves, what is wanted comes."""
    told = {f"{NAME}@{name}": (running, 0) for name, running in wishes.items()}
    for _ in range(50):
        streams.converge(REVISIONS, told)
        here = {n for n, w in streams.workers.items() if w.state == "running"}
        gone = streams.code_is_gone_of | {n for n, running in wishes.items() if not running}
        if here == {f"{NAME}@{r.revision}" for r in REVISIONS} - {f"{NAME}@{n}" for n in gone}:
            return
        time.sleep(0.05)
    raise AssertionError({n: w.state for n, w in streams.workers.items()})


def test_one_that_runs_takes_part(streams):
    look(streams)
    assert not streams.world.parked(NAME, "X")
    assert not streams.world.parked(NAME, "unknown")


def test_one_that_was_stopped_is_like_one_that_is_parked(streams):
    look(streams, X=False)
    assert streams.world.parked(NAME, "X")
    assert not streams.world.parked(NAME, "W")


def test_one_that_is_stopping_is_waited_for(streams):
    look(streams)
    streams.converge(REVISIONS, {X: (False, 0)})
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(streams.world.parked(NAME, "X")))
    asking.start()
    look(streams, X=False)
    asking.join(10)
    assert found == [True]


def test_one_whose_code_is_gone_is_like_one_that_is_parked(streams):
    streams.code_is_gone_of.add("X")
    look(streams)
    assert streams.world.parked(NAME, "X")


def test_it_is_not_started_while_an_operation_counts_on_it(streams):
    look(streams, X=False)
    streams.errands._operating.add(7)
    assert streams.world.parked(NAME, "X")
    streams.converge(REVISIONS, {})  # somebody wants it to run again
    assert X not in streams.workers
    streams.errands._operating.clear()
    look(streams)
    assert not streams.world.parked(NAME, "X")


def test_nor_is_one_that_is_parked_made_anew(streams):
    look(streams)
    streams.workers[X].ask_to_stop()
    streams.workers[X].join()
    streams.workers[X].state = "parked"
    streams.errands._operating.add(7)
    assert streams.world.parked(NAME, "X")
    streams.leave(X)
    streams.converge(REVISIONS, {})
    assert X not in streams.workers


def test_whoever_is_needed_and_was_stopped_is_not_waited_for_long(streams):
    look(streams, W=False)
    with pytest.raises(UsageError, match=r"stopped.*`penstock streams start gold\.x@W`"):
        streams.world.worker(NAME, "W")


def test_the_writer_of_one_whose_code_is_gone_is_had_without_it(streams, monkeypatch):
    look(streams)
    monkeypatch.setattr(Streams, "catalog", lambda *_: 1 / 0)
    monkeypatch.setattr(streams.writers, "unshown", lambda *given: given)
    assert streams.world.writer(NAME, "X", "late") == (REVISIONS[0], "late")
    assert streams.world.writer(NAME, "X", "table") == (REVISIONS[0], "table")
