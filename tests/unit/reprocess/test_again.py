"""Another generation of a table: staged once, and gone on with when it is asked for again."""

from __future__ import annotations

import re
import types
from contextlib import nullcontext
from dataclasses import replace

import pytest

from penstock.cli import backfilling
from penstock.errors import UsageError
from penstock.reprocess import stage
from penstock.reprocess.backfill import Backfill
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Candidate, How

LIVE = [
    Revision("silver.s", "s1", State.LIVE, "", {}),
    Revision("gold.g", "g1-2", State.LIVE, "", {"silver.s": "s1"}),
    Revision("gold.other", "o1", State.LIVE, "", {}),
]


class Book:
    """A registry that lets a table have one candidate."""

    def __init__(self) -> None:
        self.known = list(LIVE)
        self.staged: list[Candidate] = []

    def revisions(self, *, states=State.FED) -> list[Revision]:
        return [r for r in self.known if r.state in states]

    def candidates(self, release=None) -> list[Candidate]:
        return [c for c in self.staged if release in (None, c.release)]

    def add(self, staged) -> None:
        for revision, candidate in staged:
            if any(c.table == candidate.table for c in self.staged):
                raise UsageError(f"{candidate.table} has candidate revision.")
            self.known.append(revision)
            self.staged.append(candidate)

    def pace(self, table, *, paused=None, share=None) -> bool:
        self.staged = [replace(c, share=share) if c.table == table else c for c in self.staged]
        return True


@pytest.fixture
def book(monkeypatch) -> Book:
    monkeypatch.setattr(stage, "Staging", lambda registry: registry)
    monkeypatch.setattr(Backfill, "_live", lambda self, table: None)
    monkeypatch.setattr(Backfill, "_how", lambda self, revision: How.BATCH)
    return Book()


def again(book: Book, table: str = "silver.s", share: float = 1.0) -> str:
    backfill = Backfill(lambda: None, types.SimpleNamespace(), book, lambda *asked: {})
    return backfill.stage_again(table, who="me", why="x", share=share)


def test_a_generation_that_was_staged_is_gone_on_with(book):
    release = again(book)
    names = [(c.table, c.revision) for c in book.staged]
    assert names == [("silver.s", "s1-2"), ("gold.g", "g1")]
    assert again(book, share=0.5) == release
    assert [c.share for c in book.staged] == [0.5, 0.5]
    assert [(c.table, c.revision) for c in book.staged] == names


def test_two_that_are_staged_in_one_second_are_two_releases(book):
    assert again(book) != again(book, "gold.other")
    for name in {c.release for c in book.staged}:
        assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}-again", name)


def test_another_set_of_tables_is_another_release(book):
    again(book)
    with pytest.raises(UsageError, match=r"gold\.g has candidate"):
        again(book, "gold.g")
    assert again(book, "gold.other") == book.staged[-1].release


def test_a_candidate_of_other_code_is_not_taken_for_a_generation(book):
    book.staged = [
        Candidate("silver.s", "s9", "r1", How.BATCH), Candidate("gold.g", "g9", "r1", How.BATCH),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"silver\.s has candidate"):
        again(book)


def test_it_is_waited_for_until_it_can_be_swapped_in(book, monkeypatch):
    waited = []
    monkeypatch.setattr(stage.Stager, "build", lambda *_: None)
    monkeypatch.setattr(stage.Stager, "wait_ready", lambda *_, **how: waited.append(how["seconds"]))
    backfill = Backfill(lambda: None, types.SimpleNamespace(), book, lambda *asked: {})
    backfill.build(again(book), print, print)
    assert waited == [None], "or it ends, and says that it goes on by itself"


def test_all_of_a_table_is_promoted_as_what_it_was_staged_as(monkeypatch):
    asked = []
    staged = types.SimpleNamespace(
        stage_again=lambda *_, **__: "r7", build=lambda *given: asked.append(given[0])
    )
    releases = types.SimpleNamespace(
        compare=lambda table, wishes, **given: asked.append((table, given)) or {"page": "p"},
        promote=lambda table, **given: asked.append((table, given["release"])) or {},
    )
    monkeypatch.setattr(backfilling, "_backfill", lambda *, quiet: nullcontext(staged))
    monkeypatch.setattr(backfilling, "releases_of", lambda *, quiet: releases)
    backfilling.backfill_all("gold.g", why="x", share=1.0, quiet=True)
    assert asked == ["r7", (None, {"release": "r7"}), (None, "r7")]
