"""The way back past what a guard stopped: refused as long as it would show that, and never shut."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from penstock.errors import UsageError
from penstock.reprocess import release, stopped
from penstock.runtime.registry import Revision
from penstock.runtime.staging import Promotion
from tests.unit.reprocess.operated import TABLE, made, rows
from tests.unit.reprocess.test_approved import Named, promoted
from tests.unit.reprocess.test_release import asked

G = "gold.g"


def swap(number: int, revision: str, replaced: str, name: str, table: str = G) -> Promotion:
    return Promotion(table, revision, replaced, "promote", name, number, "me", "", "", str(number))


def back(number: int, revision: str, replaced: str, name: str) -> Promotion:
    return replace(swap(number, revision, replaced, name), verb="rollback")


def book(live: str, *oldest_first: Promotion) -> Named:
    known = {revision for p in oldest_first for revision in (p.revision, p.replaced)}
    of = {p.revision: p.table for p in oldest_first} | {p.replaced: p.table for p in oldest_first}
    shown = {live, "s2"}
    found = [Revision(of[r], r, "live" if r in shown else "warm", "", {}) for r in sorted(known)]
    return Named(found, list(reversed(oldest_first)))


@pytest.fixture(autouse=True)
def guarded(monkeypatch) -> set[str]:
    """Revisions that a guard stopped."""
    found: set[str] = {"g2"}
    for module in (release, stopped):
        monkeypatch.setattr(module, "stopped", lambda settings, table, revision: revision in found)
    monkeypatch.setattr(release, "referenced", lambda *_: False)
    return found


MENDED = (swap(1, "g2", "g1", "r2"), swap(2, "g3", "g2", "r3"))


def refused(of: Named, name: str | None = None) -> str:
    with pytest.raises(UsageError) as error:
        asked(of, lambda r: r.rollback(None, why="x", release=name))
    return str(error.value)


def went(of: Named, name: str) -> tuple[dict, list]:
    told = asked(of, lambda r: r.rollback(None, why="x", release=name))
    assert (told["verb"], told["release"]) == ("rollback", name)
    return told["expected"], told["to"]


def named_in(refusal: str) -> str:
    """The release that a refusal tells to roll back."""
    (name,) = re.findall(r"`penstock rollback --release (\S+) --why", refusal)
    return name


def test_what_a_guard_stopped_is_gone_past_by_the_release_that_brought_it():
    of = book("g3", *MENDED)
    told = refused(of)
    assert "a guard stopped g2" in told
    assert named_in(told) == "r2"
    assert went(of, "r2") == ({G: "g3"}, [(G, "g1")])


def test_and_several_of_them_one_after_the_other(guarded):
    guarded.add("g3")
    of = book("g4", *MENDED, swap(3, "g4", "g3", "r4"))
    assert named_in(refused(of)) == "r3"
    assert named_in(refused(of, "r3")) == "r2"
    assert went(of, "r2") == ({G: "g4"}, [(G, "g1")])


def test_what_was_promoted_and_taken_back_in_between_is_not_in_the_way():
    of = book("g3", *MENDED, swap(3, "g4", "g3", "r4"), back(4, "g3", "g4", "r4"))
    assert named_in(refused(of, "r3")) == "r2"
    assert went(of, "r2") == ({G: "g3"}, [(G, "g1")])


def test_what_replaced_good_revisions_is_rolled_back_first(guarded):
    guarded.clear()
    assert "Roll back the newer release first" in refused(book("g3", *MENDED), "r2")
    guarded.add("g2")
    of = book("g4", *MENDED, swap(3, "g4", "g3", "r4"))
    assert "Roll back the newer release first" in refused(of, "r2")


def test_nor_is_a_table_left_behind_that_moved_with_the_newer_release():
    of = book("g3", *MENDED, swap(3, "s2", "s1", "r3", "silver.s"))
    assert "Mend the code" in refused(of)
    assert "Roll back the newer release first" in refused(of, "r2")


def test_a_rollback_from_what_a_guard_stopped_is_not_said_to_be_taken_back():
    of = book("g1", MENDED[0], back(2, "g1", "g2", "r2"))
    assert "take that back" not in refused(of)
    with pytest.raises(UsageError, match=r"taken back.*stage the code of that time anew\.$"):
        promoted(of, "r2")
    with pytest.raises(UsageError, match=r"a guard stopped g2.*Mend the code, then stage it\.$"):
        asked(of, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))


def test_what_was_gone_past_is_taken_back_by_promote():
    of = book("g1", *MENDED, back(3, "g1", "g3", "r2"))
    told = asked(of, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))
    assert told["to"] == [(G, "g3")]


def test_the_log_of_a_revision_says_that_a_guard_stopped_it(tmp_path, monkeypatch):
    monkeypatch.undo()
    for world in made(tmp_path, monkeypatch):
        assert not stopped.stopped(world.settings, str(TABLE), "X")
        assert not stopped.stopped(world.settings, str(TABLE), "gone")
        world.parts["X"][0].commit([], {"guard": 1})
        assert stopped.stopped(world.settings, str(TABLE), "X")
        world.parts["X"][0].commit([], {"guard": 0})
        assert not stopped.stopped(world.settings, str(TABLE), "X")
        assert world.rows() == [tuple(rows(("a", 1)).to_pylist()[0].values())]
