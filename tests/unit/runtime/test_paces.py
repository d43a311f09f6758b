"""Which query reads a topic: never two at once, whatever its readers declare meanwhile."""

from __future__ import annotations

import datetime as dt
import types

from penstock.runtime.supervise.streams import Streams

AT_ONCE, LATER = dt.timedelta(0), dt.timedelta(seconds=10)


class Group:
    """A query whose topics leave when its own thread has come to it."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.wanted: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self.members | self.wanted

    def round(self) -> None:
        self.members = set(self.wanted)


def reads() -> tuple[dict[str, Group], types.SimpleNamespace]:
    groups: dict[str, Group] = {}

    def read(pace: str, topics: dict) -> None:
        if pace in groups or topics:
            groups.setdefault(pace, Group()).wanted = set(topics)

    return groups, types.SimpleNamespace(_ingests=groups, _read=read)


def taken_in(streams: types.SimpleNamespace, **topics: dt.timedelta) -> None:
    Streams._take_in(streams, {name: (object(), every) for name, every in topics.items()})


def test_topics_somebody_is_in_a_hurry_for_are_read_apart():
    groups, streams = reads()
    taken_in(streams, trades=AT_ONCE, clicks=LATER, cards=LATER)
    assert groups["hasty"].wanted == {"trades"}
    assert groups["patient"].wanted == {"clicks", "cards"}


def test_a_query_is_made_only_for_topics():
    groups, streams = reads()
    taken_in(streams, clicks=LATER)
    assert groups.keys() == {"patient"}


def test_a_topic_is_left_by_one_before_the_other_has_it():
    groups, streams = reads()
    taken_in(streams, trades=AT_ONCE, clicks=LATER)
    for group in groups.values():
        group.round()
    for trades, clicks, hasty, patient in (
        (AT_ONCE, AT_ONCE, {"trades", "clicks"}, set()),
        (LATER, LATER, set(), {"trades", "clicks"}),
    ):
        for _ in range(2):  # whoever has it still has to come to it
            taken_in(streams, trades=trades, clicks=clicks)
            assert not groups["hasty"].members & groups["patient"].wanted
            assert not groups["patient"].members & groups["hasty"].wanted
            for group in groups.values():
                group.round()
        assert (groups["hasty"].wanted, groups["patient"].wanted) == (hasty, patient)
