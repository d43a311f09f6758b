"""A live revision that is parked or held is what a rollback is for: it must not need its help."""

from __future__ import annotations

import types

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise import operate, standing
from penstock.runtime.supervise.holds import Holds
from penstock.runtime.supervise.standing import Move
from tests.unit.reprocess.operated import TABLE, made, rows, swapped_in_part

NAME = str(TABLE)


@pytest.fixture
def world(tmp_path, monkeypatch):
    yield from made(tmp_path, monkeypatch)


def add(world, revision: str, *pairs) -> None:
    writer = world.parts[revision][0]
    writer.commit(write_arrow(rows(*pairs), writer.path), {"i": 2})


def feed(world, version: int) -> list[tuple]:
    """What a reader of the change feed is told of one version."""
    table = DeltaTable(str(world.path())).load_cdf(version, version)
    told = pa.table(table.read_all()).to_pylist()
    return sorted((r["_change_type"], r["k"], r["v"]) for r in told)


def test_one_that_is_parked_is_taken_back(world):
    world.park("X")
    add(world, "W", ("b", 5))
    told = world.swap("W", "X", "rollback")
    assert world.rows() == world.of("W") == [("a", 0), ("b", 5)]
    assert (world.book.live, world.shows()) == ("W", "W")
    assert told["tables"][0]["beside"] == ["quarantine", "late", "outcomes"]
    (bad,) = DeltaTable(str(world.path(TABLE.quarantine))).to_pyarrow_table()["row_id"].to_pylist()
    assert bad == "W"
    assert feed(world, told["tables"][0]["version"]) == [
        ("insert", "b", 5), ("update_postimage", "a", 0), ("update_preimage", "a", 1),
    ]  # fmt: skip
    add(world, "W", ("c", 6))
    assert ("c", 6) in world.rows(), "live follows the one it shows now"
    add(world, "X", ("d", 7))
    assert ("d", 7) not in world.rows(), "and no longer the other"


def test_one_that_is_parked_is_replaced_by_mended_code(world):
    world.park("X")
    (pins,) = operate._pin(world, world.book, {"to": [[NAME, "A"]]})["pins"].values()
    assert pins["old"]["version"] == world.parts["X"][0].log.version
    assert pins["old"]["beside"].keys() == {"quarantine", "late", "outcomes"}
    world.swap("A", "X")
    assert (world.rows(), world.book.live) == (world.of("A"), "A")


def test_a_crash_after_the_table_was_swapped_is_finished(world, monkeypatch):
    world.park("X")
    monkeypatch.setattr(operate.Exchange, "swap_beside", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.swap("W", "X", "rollback")
    monkeypatch.undo()
    assert world.rows() == world.of("W")


def test_whoever_takes_over_from_a_parked_one_is_not_behind_it():
    def halted(at: int):
        follower = types.SimpleNamespace(advance=lambda: None, stand=lambda: {"silver.a": at})
        return types.SimpleNamespace(call=lambda what: what(follower))

    old, new = Revision("gold.x", "o", "live", "", {}), Revision("gold.x", "n", "warm", "", {})
    writer = types.SimpleNamespace(position=lambda name: 5)
    world = types.SimpleNamespace(writer=lambda *_: writer)
    move = Move("gold.x", old, new)
    standing._align(world, move, {("gold.x", "n"): halted(5)})
    with pytest.raises(PenstockError, match=r"behind the live revision in silver\.a"):
        standing._align(world, move, {("gold.x", "n"): halted(4)})


@pytest.mark.parametrize("who", ["quality", "a guard", "quality, a guard"])
@pytest.mark.parametrize(("to", "verb"), [("W", "rollback"), ("A", "promote")])
def test_what_was_held_is_never_shown(world, who, to, verb):
    held = world.parts["X"][0]
    held.held, world.book.held = True, {NAME: who}
    add(world, "X", ("bad", 666))
    told = world.swap(to, "X", verb)
    assert world.rows() == world.of(to)
    assert not [r for r in feed(world, told["tables"][0]["version"]) if r[1] == "bad"]
    assert told["tables"][0]["released"] == f"{who}: a reason"
    assert world.book.held == {}
    add(world, to, ("c", 6))
    assert ("c", 6) in world.rows()
    assert not held.held


def test_what_a_person_holds_may_go_back_and_stays_held(world):
    world.parts["X"][0].held, world.book.held = True, {NAME: "quality, me"}
    with pytest.raises(UsageError, match="held by quality, me"):
        world.swap("A", "X")
    told = world.swap("W", "X", "rollback")
    assert told["tables"][0]["still_held"] == "quality, me: a reason"
    assert world.book.held == {NAME: "quality, me"}
    add(world, "W", ("c", 6))
    assert world.rows() == [("a", 0)]


@pytest.mark.parametrize("who", ["a guard", "quality"])
def test_a_swap_that_has_nothing_left_to_do_leaves_the_hold_of_what_is_live(world, who):
    """Asked for again, or done again after a crash: by then it is the new one that is held."""
    world.swap("A", "X")
    world.parts["A"][0].held, world.book.held = True, {NAME: who}
    add(world, "A", ("bad", 666))
    told = world.swap("A", "X")
    assert world.book.held == {NAME: who}
    assert world.rows() == [("a", 2)]
    assert "released" not in told["tables"][0]
    assert told["tables"][0]["still_held"] == f"{who}: a reason"


def test_what_a_crash_left_beside_a_table_is_swapped_and_its_hold_left(world, monkeypatch):
    swapped_in_part(world, monkeypatch)
    world.book.states |= {"X": State.WARM, "A": State.LIVE}  # noted when the next one starts
    world.parts["A"][0].held, world.book.held = True, {NAME: "a guard"}
    add(world, "A", ("bad", 666))
    told = world.swap("A", "X")
    assert told["tables"][0]["beside"] == ["quarantine", "late", "outcomes"]
    assert (world.rows(), world.book.held) == ([("a", 2)], {NAME: "a guard"})


def test_a_hold_that_was_of_the_old_one_ends_before_anything_else_can_fail(world, monkeypatch):
    world.book.held = {NAME: "a guard"}
    monkeypatch.setattr(operate.Exchange, "swap_beside", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.swap("W", "X", "rollback")
    assert (world.rows(), world.book.held) == (world.of("W"), {})


@pytest.mark.parametrize(
    ("by_then", "then"), [("quality, me", [("a", 0)]), (None, [("a", 0), ("c", 6)])]
)
def test_a_hold_that_somebody_joins_or_ends_at_the_last_moment(world, monkeypatch, by_then, then):
    def meanwhile(table, held_by):
        world.book.held = {NAME: by_then} if by_then else {}
        return False

    world.book.held = {NAME: "quality"}
    monkeypatch.setattr(world.book, "release", meanwhile)
    (told,) = world.swap("W", "X", "rollback")["tables"]
    assert told.get("still_held") == (by_then and f"{by_then}: a reason")
    add(world, "W", ("c", 6))
    assert world.rows() == then


def test_whoever_joins_a_hold_while_the_difference_is_computed_is_asked(world, monkeypatch):
    real = operate.differences

    def slow(*rest):
        found = real(*rest)
        world.book.held = {NAME: "quality, me"}
        return found

    world.book.held = {NAME: "quality"}
    monkeypatch.setattr(operate, "differences", slow)
    with pytest.raises(PenstockError, match="since just now") as refused:
        world.swap("A", "X")
    assert refused.value.exit_code == 1, "Airflow tries it again"
    assert world.rows() == world.of("X")


def test_what_a_guard_stopped_is_not_shown_by_going_back_to_it(world):
    add(world, "A", ("bad", 666))
    writer = world.parts["A"][0]
    writer.commit([], {"guard": 1})
    writer.held = True
    with pytest.raises(UsageError, match="is what a guard"):
        world.swap("A", "X")
    assert world.rows() == world.of("X")


def test_the_guard_of_the_new_one_may_trip_right_after_a_swap_ended_the_hold(world):
    """The order to go on is for what was held, and that is not live any more."""
    world.book.held = {NAME: "a guard"}
    shown = types.SimpleNamespace(
        all=lambda: [(NAME, r, parts[0]) for r, parts in world.parts.items()]
    )
    holds = Holds(shown, {f"{NAME}@{r}": worker for r, worker in world.workers.items()})
    holds.look(world.book.holds())
    world.swap("W", "X", "rollback")
    world.worker(NAME, "W")._follower.breach = "a batch added 9 rows"
    holds.look({})
    assert holds.breaches() == {NAME: "a batch added 9 rows"}
    assert world.workers["W"]._orders.empty()


@pytest.fixture
def away(monkeypatch):
    """The registry goes away right after the live log was swapped, once."""

    def breaks(world):
        def lost(done, keep):
            monkeypatch.setattr(world.book, "promoted", real)
            raise NotRunning("the registry does not answer.")

        real = world.book.promoted
        monkeypatch.setattr(world.book, "promoted", lost)
        with pytest.raises(NotRunning):
            world.swap("W", "X", "rollback")
        assert world.rows() == world.of("W"), "the log shows it, and nobody noted it"

    return breaks


def test_a_hold_of_what_was_swapped_away_ends_also_when_it_is_noted_later(world, away):
    """Nothing of what live shows now was found bad: nobody would know what to release it for."""
    world.parts["X"][0].held, world.book.held = True, {NAME: "a guard"}
    away(world)
    (told,) = world.swap("W", "X", "rollback")["tables"]
    assert told["released"] == "a guard: a reason"
    assert (world.book.live, world.book.held) == ("W", {})
    add(world, "W", ("c", 6))
    assert ("c", 6) in world.rows()


@pytest.mark.parametrize("by_then", ["a guard", "a guard, me", "quality"])
def test_but_not_one_that_is_of_what_live_shows_now(world, away, by_then):
    world.parts["X"][0].held, world.book.held = True, {NAME: "a guard"}
    away(world)
    if by_then == "a guard":  # that of the new one has tripped since, and is the only one named
        world.parts["W"][0].commit([], {"guard": 1})
    world.book.held = {NAME: by_then}
    (told,) = world.swap("W", "X", "rollback")["tables"]
    assert told["still_held"] == f"{by_then}: a reason"
    assert world.book.held == {NAME: by_then}
