"""A release asked for by its name: what somebody approved, however long ago, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import QualityFailed, UsageError
from penstock.reprocess import release
from penstock.runtime.staging import Candidate
from tests.unit.reprocess.test_release import PROMOTED, Book, asked, revisions, swap

STAGED = Candidate("gold.g", "g2", "r1", "batch")


R2 = {
    "candidates": {"silver.s": "s2", "gold.g": "g2"},
    "live": {"silver.s": "s1", "gold.g": "g1"},
    "order": ["silver.s", "gold.g"],
    "within": True, "alike": True, "unexpected": {},
}  # fmt: skip


class Named(Book):
    def candidates(self, release=None) -> list:
        return [c for c in self.left if release in (None, c.release)]


def promoted(book: Book, name: str = "r1") -> dict:
    told: list[dict] = []

    def do(releases) -> None:
        told.append(releases.promote(None, why="x", accept=None, keep_warm=None, release=name))

    asked_for = []
    try:
        asked_for.append(asked(book, do))
    except IndexError:  # nothing was asked of the supervisor
        return told[-1]
    return asked_for[-1]


@pytest.fixture(autouse=True)
def nothing_left_beside(monkeypatch):
    monkeypatch.setattr(release, "referenced", lambda *_: False)


def test_one_that_is_live_already_is_done():
    told = promoted(Named(revisions({"s2", "g2"}), PROMOTED))
    assert told["tables"] == [
        {"table": "silver.s", "from": "s1", "to": "s2", "version": 1},
        {"table": "gold.g", "from": "g1", "to": "g2", "version": 2},
    ]
    assert told["done"] == {"at": "2", "who": "me"}


def test_one_that_was_given_up_is_not_taken_for_another_of_the_same_tables():
    book = Named(revisions({"s1", "g1"}), [])
    book.left, book.verdict = (replace(STAGED, release="r2"),), R2  # r1 was compared
    with pytest.raises(UsageError, match="r1 is not staged any more"):
        promoted(book)


def test_one_that_was_taken_back_is_not_promoted_again_by_trying_again():
    done = [swap(3, "gold.g", "g1", "g2", "rollback"), *PROMOTED]
    with pytest.raises(UsageError, match="was taken back"):
        promoted(Named(revisions({"s2", "g1"}), done))


def test_how_to_take_a_rollback_back_is_said_only_where_it_means_that_release():
    book = Named(revisions({"s2", "g1"}), [swap(3, "gold.g", "g1", "g2", "rollback"), *PROMOTED])
    with pytest.raises(UsageError, match=r"`penstock promote gold\.g --why '\.\.\.'`"):
        promoted(book)
    book.left = (replace(STAGED, release="r2"),)
    with pytest.raises(UsageError, match=r"taken back.*anew\.$"):
        promoted(book)
    book.left = ()
    later = [swap(5, "gold.g", "g1", "g3", "rollback"), swap(4, "gold.g", "g3", "g1", "promote")]
    book._done = [*(replace(one, release="r2") for one in later), *book._done]
    with pytest.raises(UsageError, match=r"taken back.*anew\.$"):
        promoted(book)


def test_a_release_before_it_that_is_half_way_would_be_finished_in_its_place():
    """Of r0 silver.s is left, and taking r1 back let gold.g show what r0 had promoted."""
    before = replace(swap(0, "gold.g", "g1", "g0", "promote"), release="r0")
    done = [swap(3, "gold.g", "g1", "g2", "rollback"), PROMOTED[0], before]
    book = Named(revisions({"s1", "g1"}), done)
    book.left = (Candidate("silver.s", "s2", "r0", "batch"),)
    with pytest.raises(UsageError, match=r"taken back.*anew\.$"):
        promoted(book)


@pytest.mark.parametrize("verb", ["promote", "abort"])
def test_a_name_that_nobody_knows_is_no_release(verb):
    book = Named(revisions({"s2", "g2"}), PROMOTED)
    how = {"why": "x", "accept": None, "keep_warm": None} if verb == "promote" else {}
    with pytest.raises(UsageError, match="there is no release typo"):
        asked(book, lambda r: getattr(r, verb)(None, release="typo", **how))


def test_what_is_left_of_a_release_that_was_taken_back_can_be_given_up():
    done = [swap(2, "silver.s", "s1", "s2", "rollback"), PROMOTED[1]]
    book = Named(revisions({"s1", "g1"}), done)
    book.left = (STAGED,)
    told = asked(book, lambda r: r.abort(None, release="r1"))
    assert told["revisions"] == [("gold.g", "g2")]
    book.left = ()
    given: list[dict] = []
    with pytest.raises(IndexError):
        asked(book, lambda r: given.append(r.abort(None, release="r1")))
    assert given == [{"dropped": []}]


def test_what_is_left_of_one_that_is_live_in_part_is_given_up_by_its_table():
    book = Named(revisions({"s2", "g1"}), PROMOTED[1:])
    book.left = (STAGED,)
    with pytest.raises(UsageError, match=r"is no candidate.*`penstock abort gold\.g`"):
        asked(book, lambda r: r.abort(None, release="r1"))


def test_one_that_was_followed_by_another_is_not_live():
    book = Named(revisions({"s2", "g2"}), PROMOTED)
    book._revisions = [
        replace(r, state="warm") if r.revision == "g2" else r for r in book._revisions
    ]
    book._revisions.append(replace(book._revisions[-1], revision="g3", state="live"))
    with pytest.raises(UsageError, match="another revision since"):
        promoted(book)


def test_giving_up_means_that_release_and_is_done_once():
    book = Named(revisions({"s1", "g1"}), [])
    book.left, book.verdict = (replace(STAGED, release="r2"),), R2  # r1 was compared
    given: list[dict] = []
    with pytest.raises(IndexError):  # nothing is asked of the supervisor
        asked(book, lambda r: given.append(r.abort(None, release="r1")))
    assert given == [{"dropped": []}]
    told = asked(book, lambda r: r.abort(None, release="r2"))
    assert told["revisions"] == [("gold.g", "g2")]
    with pytest.raises(UsageError, match="is no candidate"):
        asked(Named(revisions({"s2", "g2"}), PROMOTED), lambda r: r.abort(None, release="r1"))


def test_a_release_before_the_last_is_taken_back_by_its_name():
    older = [replace(one, release="r0") for one in PROMOTED]
    newer = [
        replace(swap(6, "gold.g", "g2", "g3", "rollback"), release="r1"),
        replace(swap(5, "gold.g", "g3", "g2", "promote"), release="r1"),
    ]
    book = Named(revisions({"s2", "g2"}), [*newer, *older])
    with pytest.raises(UsageError, match="was rolled back"):
        asked(book, lambda r: r.rollback("gold.g", why="x"))
    told = asked(book, lambda r: r.rollback(None, why="x", release="r0"))
    assert told["to"] == [("silver.s", "s1"), ("gold.g", "g1")]
    for name in ("r9", ""):
        with pytest.raises(UsageError, match=f"no release {name}"):
            asked(book, lambda r, name=name: r.rollback(None, why="x", release=name))


def test_how_long_the_old_one_stays_is_kept_when_a_rollback_is_taken_back():
    done = [
        swap(4, "gold.g", "g1", "g2", "rollback"),
        swap(3, "silver.s", "s1", "s2", "rollback"),
        *PROMOTED,
    ]
    book = Named(revisions({"s1", "g1"}), done)
    told = asked(book, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))
    assert told["keep_warm_seconds"] is None


R3 = {
    "candidates": {"silver.s": "s3"}, "live": {"silver.s": "s2"}, "order": ["silver.s"],
    "within": True, "alike": True, "unexpected": {},
}  # fmt: skip


class Overtaken(Named):
    """Of r1 silver.s is live and gold.g is left; silver.s was edited since and staged as r3."""

    left = (STAGED, Candidate("silver.s", "s3", "r3", "batch"))

    def comparison(self, release):
        return {"r1": ("h/r1", R2), "r3": ("h/r3", R3)}.get(release)


@pytest.fixture
def overtaken(monkeypatch) -> Overtaken:
    monkeypatch.setattr(release.Releases, "_require_ready", lambda *_: None)
    monkeypatch.setattr(release.Releases, "_require_quality", lambda *_: None)
    book = Overtaken(revisions({"s2", "g1"}), PROMOTED[1:])
    book._revisions.append(replace(book._revisions[0], revision="s3", state="candidate"))
    return book


def meant(book: Book, **how: str | None) -> tuple[str, list]:
    given = {"table": None, **how}

    def do(releases) -> None:
        releases.promote(given.pop("table"), why="x", accept=None, keep_warm=None, **given)

    told = asked(book, do)
    return told["release"], told["to"]


@pytest.mark.parametrize("how", [{"release": "r3"}, {"table": "silver.s"}])
def test_a_release_is_not_taken_for_another_that_is_half_way(overtaken, how):
    assert meant(overtaken, **how) == ("r3", [("silver.s", "s3")])


@pytest.mark.parametrize("how", [{"release": "r1"}, {"table": "gold.g"}, {}])
def test_one_that_is_half_way_is_finished_if_it_is_meant(overtaken, how):
    assert meant(overtaken, **how) == ("r1", [("silver.s", "s2"), ("gold.g", "g2")])


def test_a_table_that_is_swapped_finishes_what_it_was_swapped_with(overtaken):
    overtaken.left = overtaken.left[:1]
    assert meant(overtaken, table="silver.s")[0] == "r1"


def test_a_release_is_compared_by_its_name(overtaken, monkeypatch):
    monkeypatch.setattr(release, "compared", lambda *_: [])
    monkeypatch.setattr(release, "written", lambda *_: {"page": "p"})
    overtaken.compared = lambda *given: told.append(given[0])
    told: list = []

    def do(releases) -> None:
        releases._ask = lambda table, verb, given: told.append(given) or {"pins": {}}
        releases.compare(None, None, release="r3")

    with pytest.raises(IndexError):
        asked(overtaken, do)
    assert told == [{"to": [("silver.s", "s3")]}, "r3"]


def test_what_the_checks_refuse_is_accepted_by_a_command_that_can(monkeypatch):
    """Also after `backfill --all`, which has no such option."""
    monkeypatch.setattr(release.Releases, "_require_ready", lambda *_: None)
    monkeypatch.setattr(release, "standing", lambda *_: None)
    book = Overtaken(revisions({"s2", "g1"}), [])
    book.comparison = lambda name: ("h/p", {**R3, "quality": {"silver.s": ["rows between"]}})
    with pytest.raises(QualityFailed) as caught:
        meant(book, release="r3")
    typed = "`penstock promote --release r3 --why '...' --accept-quality 'why'`"
    assert typed in caught.value.remedy
