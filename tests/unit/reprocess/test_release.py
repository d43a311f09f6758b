"""Which tables a promote or a rollback is about, also when an earlier one was interrupted."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.reprocess.release import Releases
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Promotion


class Book:
    def __init__(self, revisions: list[Revision], done: list[Promotion]) -> None:
        self._revisions, self._done = revisions, done

    def run(self, *_: object, **__: object) -> list:
        raise AssertionError("nothing is asked of the database")

    def revisions(self, *, states=State.FED) -> list[Revision]:
        return [r for r in self._revisions if r.state in states]

    def promotions(self, table=None, most=100) -> list[Promotion]:
        return [p for p in self._done if table in (None, p.table)][:most]

    def candidates(self, release=None) -> list:
        return []


def swap(number: int, table: str, revision: str, replaced: str, verb: str) -> Promotion:
    return Promotion(table, revision, replaced, verb, "r1", number, "me", "why", "", str(number))


PROMOTED = [
    swap(2, "gold.g", "g2", "g1", "promote"),
    swap(1, "silver.s", "s2", "s1", "promote"),
]


def revisions(live: set[str]) -> list[Revision]:
    return [
        Revision(table, name, "live" if name in live else "warm", "", inputs)
        for table, name, inputs in (
            ("silver.s", "s1", {}),
            ("silver.s", "s2", {}),
            ("gold.g", "g1", {"silver.s": "s1"}),
            ("gold.g", "g2", {"silver.s": "s2"}),
        )
    ]


def asked(book: Book, do) -> dict:
    told: list[dict] = []

    def through(table, verb, arguments):
        told.append(arguments)
        return {"tables": [{"table": t, "beside": []} for t, _ in arguments["to"]]}

    releases = Releases(None, book, through, "me")
    releases.staging = book
    do(releases)
    return told[-1]


def test_a_rollback_is_of_the_whole_release_each_after_what_it_reads():
    told = asked(Book(revisions({"s2", "g2"}), PROMOTED), lambda r: r.rollback(None, why="x"))
    assert told["to"] == [("silver.s", "s1"), ("gold.g", "g1")]
    assert told["expected"] == {"silver.s": "s2", "gold.g": "g2"}
    assert told["keep_warm_seconds"] > 0


@pytest.mark.parametrize("table", [None, "gold.g", "silver.s"])
def test_a_rollback_that_was_interrupted_is_finished(table):
    done = [swap(3, "silver.s", "s1", "s2", "rollback"), *PROMOTED]
    book = Book(revisions({"s1", "g2"}), done)
    told = asked(book, lambda r: r.rollback(table, why="x"))
    assert told["to"] == [("gold.g", "g1")]
    back = asked(book, lambda r: r.promote(table, why="x", accept=None, keep_warm=None))
    assert (back["to"], back["verb"]) == ([("silver.s", "s2")], "promote")


def test_a_rollback_is_taken_back_by_promote():
    done = [
        swap(4, "gold.g", "g1", "g2", "rollback"),
        swap(3, "silver.s", "s1", "s2", "rollback"),
        *PROMOTED,
    ]
    book = Book(revisions({"s1", "g1"}), done)
    told = asked(book, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))
    assert told["to"] == [("silver.s", "s2"), ("gold.g", "g2")]
    with pytest.raises(UsageError, match="was rolled back"):
        asked(book, lambda r: r.rollback(None, why="x"))


def test_nothing_to_do():
    whole = Book(revisions({"s2", "g2"}), PROMOTED)
    with pytest.raises(UsageError, match="nothing is staged"):
        asked(whole, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))
    with pytest.raises(UsageError, match="nothing was promoted"):
        asked(Book(revisions({"s1", "g1"}), []), lambda r: r.rollback(None, why="x"))
    gone = [r for r in revisions({"s2", "g2"}) if r.revision != "g1"]
    with pytest.raises(UsageError, match="not warm any more"):
        asked(Book(gone, PROMOTED), lambda r: r.rollback(None, why="x"))
