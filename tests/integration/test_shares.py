"""Slots and holds on the real registry database: nobody takes what another has."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.cli.asking import _parts
from penstock.runtime.registry import Registry, Revision
from penstock.runtime.supervise.shares import Shares, alive_slots, spread

pytestmark = pytest.mark.platform

REVISIONS = [
    Revision("silver.trades", "r", "live", "b", {"bronze.trades": ""}),
    Revision("gold.stats", "r", "live", "b", {"silver.trades": "r"}),
    Revision("silver.readings", "r", "live", "b", {"bronze.readings": ""}),
]
TRADES = {"bronze.trades", "silver.trades", "gold.stats"}
READINGS = {"bronze.readings", "silver.readings"}


@pytest.fixture
def registry(stack) -> Iterator[Registry]:
    registry = Registry(stack.settings)
    registry.create()
    _clear(registry)
    yield registry
    _clear(registry)
    registry.close()


def _clear(registry: Registry) -> None:
    registry.run("delete from lease")
    registry.run("delete from holding")


def settled(shares: Shares) -> set[str]:
    """What a supervisor does in a round, when nothing of its own runs."""
    wanted = shares.mine(REVISIONS)
    for table in set(shares.held) - wanted:
        shares.give_up([table])
    if wanted - set(shares.held):
        shares.keep(shares.take(wanted - set(shares.held)))
    return shares.whole(REVISIONS, wanted)


def dies(registry: Registry, holder: str) -> None:
    registry.run(
        "update lease set expires_at = clock_timestamp() - interval '1 second' "
        "where holder = :holder",
        holder=holder,
    )


def test_one_slot_is_taken_by_one_and_all_tables_with_it(registry):
    one, two = Shares(registry, "a@x", 1), Shares(registry, "b@x", 1)
    assert one.enter()
    assert not two.enter()
    assert settled(one) == TRADES | READINGS
    first = dict(one.held)
    dies(registry, "a@x")
    assert two.enter()
    assert not one.renew()
    assert settled(two) == TRADES | READINGS
    assert all(two.held[table] > first[table] for table in first)


def test_two_share_and_the_survivor_takes_over_under_higher_tokens(registry):
    one, two, three = (Shares(registry, f"{n}@x", 2) for n in "abc")
    assert one.enter()
    assert settled(one) == TRADES | READINGS
    alone = dict(one.held)
    assert two.enter()
    assert not three.enter()
    assert settled(two) == set(), "nothing is free before the other lets go"
    assert settled(one) == TRADES
    assert settled(two) == READINGS
    assert all(two.held[table] > alone[table] for table in READINGS)
    assert (one.answers_for("gold.stats"), two.answers_for("gold.stats")) == (True, False)
    assert (one.answers_for("gold.new"), two.answers_for("gold.new")) == (True, False)
    assert alive_slots(registry) == [1, 2]

    before = dict(one.held)
    dies(registry, "a@x")
    assert settled(two) == TRADES | READINGS
    assert all(two.held[table] > before[table] for table in before)
    assert not one.renew(), "its slot is still its own; its tables are not"
    one.leave()
    assert one.enter()
    assert settled(two) == READINGS
    assert settled(one) == TRADES
    assert all(one.held[table] > before[table] for table in TRADES)


def test_who_leaves_leaves_at_once(registry):
    one, two = Shares(registry, "a@x", 2), Shares(registry, "b@x", 2)
    assert one.enter()
    assert two.enter()
    settled(one)
    settled(two)
    one.leave()
    assert alive_slots(registry) == [2]
    assert settled(two) == TRADES | READINGS


def test_of_many_who_take_at_once_each_table_has_one_holder(registry, stack):
    everybody = [Shares(Registry(stack.settings), f"s{n}@x", 6) for n in range(6)]
    for shares in everybody:
        assert shares.enter()
    tables = {f"silver.t{n}" for n in range(40)}
    taken: list[dict[str, int]] = []
    threads = [
        threading.Thread(target=lambda s=shares: taken.append(s.take(tables)))
        for shares in everybody
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(table for some in taken for table in some) == sorted(tables)
    assert len({token for some in taken for token in some.values()}) == len([t for t in taken if t])


def test_what_concerns_two_supervisors_is_asked_of_each(registry):
    one, two = Shares(registry, "a@x", 2), Shares(registry, "b@x", 2)
    assert one.enter()
    assert two.enter()
    settled(one)
    settled(two)
    assert spread(registry, ["silver.trades", "silver.readings", "gold.stats"]) == [
        ["silver.trades", "gold.stats"],
        ["silver.readings"],
    ]
    to = [("silver.trades", "n"), ("silver.readings", "n"), ("gold.stats", "n")]
    asked = _parts(registry, "silver.trades", "swap", {"to": to, "why": "w"})
    assert asked == [
        ("silver.trades", {"to": [to[0], to[2]], "why": "w"}),
        ("silver.readings", {"to": [to[1]], "why": "w"}),
    ]
    assert [part["slot"] for _, part in _parts(registry, "", "sweep", {})] == [1, 2]
    dies(registry, "b@x")
    settled(one)
    assert len(_parts(registry, "silver.trades", "swap", {"to": to})) == 1
    assert _parts(registry, "", "sweep", {}) == [("", {})]


def test_a_task_is_taken_back_only_while_nobody_has_begun_it(registry):
    def state(task: int) -> str:
        (found,) = registry.tasks([task])
        return found.state

    waits, begun = (registry.ask("gold.none", "reconcile", {}, "me") for _ in range(2))
    assert registry.take(begun)
    assert not registry.take_back(begun, "nobody there")
    assert registry.take_back(waits, "nobody there")
    assert not registry.take(waits)
    assert registry.take(begun), "a crash interrupted it: the next supervisor takes it again"
    assert (state(waits), state(begun)) == ("failed", "asked")
    registry.finish(begun, {})
    assert state(begun) == "done"
    assert not registry.take(begun)


def test_revisions_are_read_again_only_when_one_was_written(stack, registry, monkeypatch):
    other = Registry(stack.settings)
    name = "gold.seen_in_a_test"
    other.add_live(Revision(name, "r", "live", "b", {}, {"freshness": "a"}))
    try:
        mine = Registry(stack.settings)
        asked: list[str] = []
        run = mine.run
        monkeypatch.setattr(
            mine, "run", lambda sql, **given: asked.append(sql) or run(sql, **given)
        )

        def freshness() -> str:
            (one,) = (r for r in mine.revisions() if r.table == name)
            return one.declared["freshness"]

        assert [freshness(), freshness(), freshness()] == ["a", "a", "a"]
        assert len(asked) == 4  # one look each, and the rows once
        other.declare(name, "r", {"freshness": "b"})
        assert freshness() == "b"
        other.run("update revision set state = 'retired' where table_name = :name", name=name)
        assert name not in {r.table for r in mine.revisions()}
    finally:
        other.run("delete from revision where table_name = :name", name=name)
        other.close()
