"""How one topic goes on from its position, with a broker's part played in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import PositionLost
from penstock.publish import work as module
from penstock.publish.declared import Published
from penstock.publish.positions import Position
from penstock.publish.work import TopicWork
from tests.unit.export.export_world import World
from tests.unit.publish.memory_outlet import MemoryOutlet

PUBLISHED = Published("changelog", "gold.sums", ("k",), topic="out.x", format="json")


@pytest.fixture
def outlet():
    return MemoryOutlet()


@pytest.fixture
def start(settings, outlet, monkeypatch):
    """A publication that begins or goes on; nothing is in the topic when it is compared."""

    @contextmanager
    def all_differs(_: Any, __: Any, wanted: Iterable[Any], ___: Any) -> Iterator[Any]:
        yield iter(list(wanted))

    monkeypatch.setattr(module, "compare", all_differs)

    def make(published: Published = PUBLISHED) -> TopicWork:
        return TopicWork(settings, published, outlet, settings.home / "scratch")  # type: ignore

    return make


def noted(outlet: MemoryOutlet, published: Published = PUBLISHED) -> Position:
    return Position.from_json(outlet.notes[published.id])


def test_a_changelog_in_another_format_is_compared_whole(settings, outlet, start):
    World(settings, keyed=True, rows=5)
    start().step()
    assert noted(outlet).format == "json"
    outlet.notes[PUBLISHED.id] = replace(noted(outlet), format="avro").to_json()
    again = start()
    again.step()
    assert again.rebuilt == "its format changed"
    assert noted(outlet).format == "json"
    assert len(outlet.sent) == 10


def test_a_position_from_before_formats_were_kept_goes_on(settings, outlet, start):
    World(settings, keyed=True, rows=5)
    start().step()
    told = json.loads(outlet.notes[PUBLISHED.id])
    del told["format"]
    outlet.notes[PUBLISHED.id] = json.dumps(told).encode()
    again = start()
    assert not again.step()
    assert again.rebuilt == ""


def test_an_event_of_a_row_without_keys_is_sent_once_although_a_column_came(
    settings, outlet, start
):
    """A promote that adds a column takes rows away with it as null; a rollback brings them back
    without it."""
    published = Published(
        "events", "gold.sums", (), topic="out.x", format="json", corrections=False
    )
    world = World(settings, rows=30)
    work = start(published)

    def publish_all() -> None:
        while work.step():
            pass

    publish_all()
    begun = len(outlet.sent)
    assert begun == world.rows().num_rows
    world.promote("more", alter=0.5)
    publish_all()
    promoted = len(outlet.sent)
    world.rollback()
    publish_all()
    assert promoted > begun, "altered rows are new ones"
    assert outlet.sent[promoted:] == [], "and those they replaced are known"


def test_events_whose_place_is_gone_are_lost_until_somebody_lets_them_go_on(
    settings, outlet, start
):
    published = Published("events", "gold.sums", (), topic="out.x", format="json")
    World(settings, rows=5)
    begun = start(published)
    while begun.step():
        pass
    outlet.notes[published.id] = replace(noted(outlet, published), mark="another").to_json()
    work = start(published)
    assert not work.lost
    with pytest.raises(PositionLost, match="cannot be told any more"):
        work.step()
    assert work.lost
    work.go_on_from_now()
    assert not work.lost


def test_a_table_with_other_keys_may_get_its_old_ones_back(settings, outlet, start):
    World(settings, keyed=True, rows=5)
    start().step()
    work = start(replace(PUBLISHED, keys=("v",)))
    with pytest.raises(PositionLost, match="has the keys v now"):
        work.step()
    assert not work.lost
    assert work.claimed == noted(outlet).version
