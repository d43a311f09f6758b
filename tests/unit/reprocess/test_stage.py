"""What staging does when building fails, when it is asked for again, and while it waits."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.errors import SparkRuntimeException, UnknownException

from penstock.errors import PenstockError, UsageError
from penstock.reprocess import stage
from penstock.reprocess.request import Request, begin_at, is_length
from penstock.reprocess.stage import Stager
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Build, Candidate, How

TABLE, RELEASE = "gold.x", "r1"


class Book:
    """Registry and staging of one candidate, in memory."""

    def __init__(self, *staged: Candidate) -> None:
        self.staged = list(staged or [Candidate(TABLE, "x2", RELEASE, How.BATCH)])

    def candidates(self, release: str | None = None) -> list[Candidate]:
        return [c for c in self.staged if release in (None, c.release)]

    def revisions(self, *, states=State.FED) -> list[Revision]:
        return [Revision(c.table, c.revision, State.CANDIDATE, "", {}) for c in self.staged]

    def tell(self, table, revision, told=None, *, build=None, how=None) -> None:
        self.staged = [
            replace(c, told={**c.told, **(told or {})}, build=build or c.build, how=how or c.how)
            if (c.table, c.revision) == (table, revision)
            else c
            for c in self.staged
        ]

    def pace(self, table, *, paused=None, share=None) -> bool:
        self.staged = [
            replace(c, share=share) if c.table == table and share else c for c in self.staged
        ]
        return True


class Shop:
    cleared = False

    def clear(self) -> None:
        self.cleared = True


@pytest.fixture
def stager(settings, monkeypatch) -> Callable[[Book], Stager]:
    def made(book: Book) -> Stager:
        monkeypatch.setattr(stage, "Staging", lambda registry: registry)
        return Stager(None, settings, book)

    return made


def builds(stager: Stager, error: Exception | None) -> Shop:
    """Its histories end like this."""
    shop = Shop()

    def run(tell) -> None:
        if error is not None:
            raise error

    stager._builder = lambda *of: types.SimpleNamespace(shop=shop, run=run)
    return shop


def test_a_row_that_breaks_a_batch_makes_the_candidate_follow(stager):
    book = Book()
    mine = stager(book)
    shop = builds(mine, SparkRuntimeException("Division by zero. SQLSTATE: 22012"))
    mine.build(RELEASE, lambda *told: None)
    (candidate,) = book.staged
    assert (candidate.how, candidate.build) == (How.FOLLOW, Build.BUILT)
    assert shop.cleared


@pytest.mark.parametrize(
    "told", ["Job aborted: No space left on device", "ExecutorLostFailure", "maxResultSize"]
)
def test_what_no_row_is_to_blame_for_leaves_the_pieces(stager, told):
    book = Book()
    mine = stager(book)
    shop = builds(mine, UnknownException(told))
    with pytest.raises(PenstockError, match=told) as caught:
        mine.build(RELEASE, lambda *told: None)
    assert "again" in caught.value.remedy
    (candidate,) = book.staged
    assert (candidate.how, candidate.build) == (How.BATCH, Build.BUILDING)
    assert told in candidate.told["error"]
    assert not shop.cleared
    builds(mine, None)
    mine.build(RELEASE, lambda *told: None)
    (candidate,) = book.staged
    assert (candidate.how, candidate.build, candidate.told["error"]) == (
        How.BATCH, Build.BUILT, "",
    )  # fmt: skip


NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)


def asked(told: str, now: dt.datetime) -> Request:
    return Request(TABLE, begin_at(told, now), is_length(told))


def declared(stager: Stager, monkeypatch, revision: str = "x2") -> None:
    """The working tree declares this revision, and something else is live."""
    found = types.SimpleNamespace(revisions={TABLE: revision}, broken=[])
    stager._tree = lambda table: types.SimpleNamespace(found=found, chosen=[TABLE])


@pytest.mark.parametrize("later", [dt.timedelta(seconds=-5), dt.timedelta(hours=9)])
def test_a_length_of_time_goes_on_with_the_beginning_that_is_staged(stager, monkeypatch, later):
    """Typed again after a crash, or by two at once of whom the other was a little faster."""
    begun = begin_at("7 days", NOW)
    mine = stager(Book(Candidate(TABLE, "x2", RELEASE, How.BATCH, since=begun)))
    declared(mine, monkeypatch)
    assert mine.register(asked("7 days", NOW + later)) == RELEASE


@pytest.mark.parametrize("told", ["30 days", "BEGINNING", "2026-11-11T12:00Z"])
def test_another_beginning_is_refused(stager, monkeypatch, told):
    begun = begin_at("7 days", NOW)
    mine = stager(Book(Candidate(TABLE, "x2", RELEASE, How.BATCH, since=begun)))
    declared(mine, monkeypatch)
    with pytest.raises(UsageError, match="another beginning"):
        mine.register(asked(told, NOW))


def test_all_of_the_history_is_not_a_part_of_it(stager, monkeypatch):
    mine = stager(Book(Candidate(TABLE, "x2", RELEASE, How.BATCH)))
    declared(mine, monkeypatch)
    assert mine.register(asked("BEGINNING", NOW)) == RELEASE
    with pytest.raises(UsageError, match="another beginning"):
        mine.register(asked("7 days", NOW))


def test_of_several_releases_one_has_to_be_named(stager, monkeypatch):
    """The first alone was gone on with, and the other stood still without a word."""
    other = Candidate("gold.y", "y2", "r2", How.BATCH)
    mine = stager(Book(Candidate(TABLE, "x2", RELEASE, How.BATCH), other))
    found = types.SimpleNamespace(revisions={TABLE: "x2", "gold.y": "y2"}, broken=[])
    chosen = [TABLE, "gold.y"]
    mine._tree = lambda table: types.SimpleNamespace(found=found, chosen=chosen)
    with pytest.raises(UsageError, match=r"several releases are staged \(gold.x, gold.y\)") as told:
        mine.register(Request())
    assert "penstock stage gold.x" in told.value.remedy
    chosen.remove(TABLE)
    assert mine.register(Request("gold.y")) == "r2"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("gold.new", "penstock register"),
        (None, "penstock register"),
        ("gold.x", "penstock plan"),
    ],
)
def test_a_table_that_was_never_live_is_registered(stager, table, said):
    found = types.SimpleNamespace(revisions={TABLE: "x1", "gold.new": "n1"}, broken=[])
    with pytest.raises(UsageError) as told:
        stager(Book())._nothing(found, {TABLE: Revision(TABLE, "x1", State.LIVE, "", {})}, table)
    assert said in told.value.remedy
