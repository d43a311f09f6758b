"""What goes wrong with one publication is that one's alone."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import (
    DefinitionError,
    NotRunning,
    PositionLost,
    ProducerUnusable,
    ServiceFailed,
)
from penstock.publish.declared import Published
from penstock.publish.notify import NotifyWork
from penstock.publish.positions import Position
from penstock.publish.records import Records
from penstock.publish.run import Publisher, _Kept
from penstock.publish.state import read_told
from penstock.runtime.upkeep.claims import Claims
from penstock.serve.snapshot import Column
from tests.unit.export.export_world import World

TABLE = "gold.sums"


class Work:
    """A publication that goes as it is told."""

    def __init__(self, name: str, table: str = TABLE) -> None:
        self.published = Published("events", table, (), topic=f"out.{name}")
        self.broken: Exception | None = None
        self.reached: int | None = None
        self.claimed: int | None = None
        self.unbegun = self.lost = False
        self.steps = 0

    def newest(self) -> int | None:
        return None

    def told(self) -> dict[str, Any]:
        return {}

    def go_on_from_now(self) -> None:
        pass

    def step(self) -> bool:
        if self.broken is not None:
            raise self.broken
        self.steps += 1
        return False


@pytest.fixture
def publisher_of(settings):
    settings.home.mkdir(parents=True, exist_ok=True)

    def make(*works: Work) -> Publisher:
        publisher = Publisher(settings, outlet=SimpleNamespace())  # type: ignore[arg-type]
        publisher._kept = {w.published: _Kept(w.published, lambda w=w: w) for w in works}  # type: ignore
        return publisher

    return make


def test_what_nobody_foresaw_stops_one_publication_and_no_other(publisher_of):
    bad, good = Work("bad"), Work("good")
    bad.broken = KeyError("gone")
    publisher = publisher_of(bad, good)
    publisher.round()
    assert good.steps == 1
    told = {one["target"]: one for one in (k.told() for k in publisher._kept.values())}
    assert told["out.bad"]["state"] == "waiting"
    assert told["out.bad"]["error"] == "KeyError: 'gone'"
    assert told["out.good"]["state"] == "running"


def test_but_a_publisher_that_was_replaced_leaves(publisher_of):
    work = Work("a")
    work.broken = ProducerUnusable("somebody else publishes now.")
    with pytest.raises(ProducerUnusable):
        publisher_of(work).round()


@pytest.mark.parametrize("what", ["_claim", "_tell", "_look_at_declarations"])
def test_what_fails_beside_the_publications_ends_none_of_them(
    settings, publisher_of, monkeypatch, what, caplog
):
    def full(*args: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    work = Work("a")
    publisher = publisher_of(work)
    real = getattr(publisher, what)
    monkeypatch.setattr(publisher, what, full)
    for _ in range(2):
        publisher.round()
    assert work.steps == 2
    traced = [record for record in caplog.records if record.exc_info]
    assert len(traced) == 1, "not twice a second"
    assert "No space left on device" in publisher._error()
    if what != "_tell":
        publisher._tell(force=True)
        assert "No space left on device" in read_told(settings).error
    monkeypatch.setattr(publisher, what, real)
    publisher.round()
    assert publisher._error() == ""


def test_what_fails_beside_them_is_told_to_who_publishes_once(publisher_of, monkeypatch):
    publisher = publisher_of(Work("a"))
    publisher._outlet.close = lambda: None  # type: ignore[method-assign]
    monkeypatch.setattr(Claims, "all", lambda self: fails(IndexError("nobody foresaw it")))
    for _ in range(2):  # it does not look right because it is not time to look again
        publisher.round()
    with pytest.raises(ServiceFailed, match="the claims: IndexError"):
        publisher.once()


def test_keys_that_went_are_told_before_schemas_are_made(settings):
    published = Published("changelog", TABLE, ("k", "at"), topic="out.x")
    with pytest.raises(DefinitionError, match=r"gold\.sums has no column at any more"):
        Records(settings, published).set_columns([Column("k", "VARCHAR")])


@pytest.mark.parametrize("changed", [{"text": "{nothing:,}"}, {"to": "nothing"}])
def test_a_notification_that_speaks_of_a_column_that_went(settings, changed):
    world = World(settings, keyed=True, rows=3)
    told = {"name": "n", "to": "k", "subject": "{k}", "text": "{k}", **changed}
    work = NotifyWork(
        settings, Published("notification", TABLE, ("k",), **told), settings.home / "scratch"
    )
    whole = work._table.whole()
    first = Position(whole.until, whole.columns, ("k",), "", work._table.mark(whole.until))
    work._outbox = Silent()  # type: ignore[assignment]
    work._at = first
    world.update()
    with pytest.raises(DefinitionError, match=r"n speaks of nothing, which gold\.sums has not"):
        work.step()


class Silent:
    """An outbox that nobody reads."""

    def transaction(self) -> Any:
        return nullcontext()

    def position(self, name: str) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: True


def test_a_claim_is_not_moved_on_past_one_that_cannot_answer(settings, publisher_of):
    quick, slow = Work("quick"), Work("slow")
    quick.claimed, slow.claimed = 100, 10

    publisher_of(quick, slow).round()
    assert claimed_version(settings) == 10
    slow.claimed = None  # its database is away
    again = publisher_of(quick, slow)
    again.round()
    assert claimed_version(settings) == 10
    quick.claimed = 5
    again._claimed_at = float("-inf")
    again.round()
    assert claimed_version(settings) == 5, "back it may go"
    quick.claimed, slow.unbegun = 100, True
    again._claimed_at = float("-inf")
    again.round()
    assert claimed_version(settings) == 100, "what has not begun needs nothing"


def test_what_is_lost_for_good_claims_nothing(settings, publisher_of):
    """Else a parked publication would keep the history of a live table for ever."""
    work = Work("a")
    work.claimed = 10
    publisher = publisher_of(work)
    publisher.round()
    assert claimed_version(settings) == 10
    work.lost = True
    publisher._claimed_at = float("-inf")
    publisher.round()
    assert Claims(settings.home).all() == []
    assert publisher._claimed == set()


def test_and_holds_up_no_other_of_its_table(settings, publisher_of):
    gone, good, slow = Work("gone"), Work("good"), Work("slow")
    gone.claimed, good.claimed, slow.claimed = 10, 20, 15
    publisher = publisher_of(gone, good, slow)
    publisher.round()
    gone.lost = True
    good.claimed, slow.claimed = 100, None
    publisher._claimed_at = float("-inf")
    publisher.round()
    assert claimed_version(settings) == 10, "who cannot answer may need it"
    slow.claimed = 50
    publisher._claimed_at = float("-inf")
    publisher.round()
    assert claimed_version(settings) == 50


@pytest.fixture
def notify(settings):
    """A notification at the newest version of a table."""
    world = World(settings, keyed=True, rows=3)
    told = {"name": "n", "to": "k", "subject": "{k}", "text": "{k}"}
    published = Published("notification", TABLE, ("k",), **told)
    work = NotifyWork(settings, published, settings.home / "scratch")
    whole = work._table.whole()
    at = Position(whole.until, whole.columns, ("k",), "", work._table.mark(whole.until))
    work._outbox = Silent()  # type: ignore[assignment]
    work._outbox.position = lambda name: json.loads(at.to_json())  # type: ignore[method-assign]
    return world, work, at


def test_a_notification_whose_keys_changed_still_claims(notify):
    _, work, at = notify
    assert work.claimed is None
    work.published = replace(work.published, keys=("v",))
    for _ in range(2):  # asked again, too
        with pytest.raises(PositionLost, match="other keys"):
            work.step()
        assert (work.claimed, work.lost) == (at.version, False)


def test_a_notification_that_failed_once_still_claims(notify):
    world, work, at = notify
    world.update()
    assert work.step()
    work._outbox.transaction = lambda: fails(NotRunning("away"))
    world.update()
    with pytest.raises(NotRunning):
        work.step()
    assert work.claimed == at.version + 1


def test_a_notification_whose_place_is_gone_is_lost_until_it_goes_on(notify):
    _, work, at = notify
    work._outbox.position = lambda name: json.loads(replace(at, mark="another").to_json())
    with pytest.raises(PositionLost, match="cannot be told any more"):
        work.step()
    assert work.lost
    work.go_on_from_now()
    assert (work.lost, work.claimed) == (False, at.version)


def fails(error: Exception) -> Any:
    raise error


def claimed_version(settings) -> int:
    (claim,) = Claims(settings.home).all()
    return claim.version
