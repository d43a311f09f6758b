"""Which tables a promote or a rollback is about, also when an earlier one was interrupted."""

from __future__ import annotations

import datetime as dt
import re
import types
from dataclasses import asdict, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.reprocess import release
from penstock.reprocess.release import NotWithin, Releases
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Candidate, Promotion, Staging


class Book:
    def __init__(self, revisions: list[Revision], done: list[Promotion]) -> None:
        self._revisions, self._done = revisions, done

    def run(self, *_: object, **__: object) -> list:
        raise AssertionError("nothing is asked of the database")

    transaction = run

    def revisions(self, *, states=State.FED) -> list[Revision]:
        return [r for r in self._revisions if r.state in states]

    def promotions(self, table=None, most=None, *, release=None) -> list[Promotion]:
        found = [p for p in self._done if table in (None, p.table)]
        return [p for p in found if release in (None, p.release)][:most]

    left: tuple[Candidate, ...] = ()
    verdict: dict | None = None

    def candidates(self, release=None) -> list:
        return list(self.left)

    def comparison(self, release):
        return None if self.verdict is None else ("page", self.verdict)


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


def asked(book: Book, do, beside: tuple[str, ...] = ()) -> dict:
    told: list[dict] = []

    def through(table, verb, arguments):
        told.append(arguments)
        return {"tables": [{"table": t, "beside": [*beside]} for t, _ in arguments.get("to", ())]}

    settings = types.SimpleNamespace(warehouse=Path("/nowhere"), home=Path("h"))
    releases = Releases(settings, book, through, "me")
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


def test_a_rollback_that_left_tables_beside_it_is_finished(monkeypatch):
    done = [
        swap(4, "gold.g", "g1", "g2", "rollback"),
        swap(3, "silver.s", "s1", "s2", "rollback"),
        *PROMOTED,
    ]
    book = Book(revisions({"s1", "g1"}), done)
    monkeypatch.setattr(release, "referenced", lambda *asked: asked[1:] == ("gold.g", "g2"))
    told = asked(book, lambda r: r.rollback(None, why="x"), beside=("late",))
    assert told["to"] == [("silver.s", "s1"), ("gold.g", "g1")]
    assert (told["expected"], told["verb"]) == ({"silver.s": "s2", "gold.g": "g2"}, "rollback")


def test_nothing_to_do():
    whole = Book(revisions({"s2", "g2"}), PROMOTED)
    with pytest.raises(UsageError, match="nothing is staged"):
        asked(whole, lambda r: r.promote(None, why="x", accept=None, keep_warm=None))
    with pytest.raises(UsageError, match="nothing was promoted"):
        asked(Book(revisions({"s1", "g1"}), []), lambda r: r.rollback(None, why="x"))
    gone = [r for r in revisions({"s2", "g2"}) if r.revision != "g1"]
    with pytest.raises(UsageError, match="not warm any more"):
        asked(Book(gone, PROMOTED), lambda r: r.rollback(None, why="x"))


VERDICT = {
    "candidates": {"silver.s": "s2", "gold.g": "g2"},
    "live": {"silver.s": "s1", "gold.g": "g1"},
    "order": ["silver.s", "gold.g"],
    "within": True,
    "unexpected": {},
}


def in_part(done: list[Promotion], verdict: dict) -> Book:
    book = Book(revisions({"s2", "g1"}), done)
    book.left = (Candidate("gold.g", "g2", "r1", "batch"),)
    book.verdict = verdict
    return book


def promote(releases: Releases) -> None:
    releases._require_ready = lambda candidates: None  # type: ignore[method-assign]
    keep = dt.timedelta(hours=1)
    releases.promote("gold.g", why="x", accept=None, keep_warm=keep)


def test_a_promotion_that_was_interrupted_is_finished_as_decided():
    told = asked(in_part(PROMOTED[1:], VERDICT), promote)
    assert told["to"] == [("silver.s", "s2"), ("gold.g", "g2")]
    assert (told["why"], told["keep_warm_seconds"]) == ("why", 3600)


def test_once_a_part_was_taken_back_the_gates_decide_about_the_rest():
    done = [swap(2, "silver.s", "s1", "s2", "rollback"), PROMOTED[1]]
    with pytest.raises(UsageError, match="not compared"):
        asked(in_part(done, VERDICT), promote)
    since = [Promotion("silver.s", "s3", "s2", "promote", "r9", 3, "me", "", "", ""), PROMOTED[1]]
    book = in_part(since, VERDICT)
    book._revisions = [
        *(replace(r, state="warm") if r.table == "silver.s" else r for r in book._revisions),
        Revision("silver.s", "s3", "live", "", {}),
    ]
    with pytest.raises(UsageError, match="not compared"):
        asked(book, promote)


def test_what_was_compared_anew_is_decided_anew():
    rest = {
        **VERDICT,
        "candidates": {"gold.g": "g2"},
        "live": {"gold.g": "g1"},
        "within": False,
        "unexpected": {"gold.g": 7},
    }
    with pytest.raises(NotWithin, match="7"):
        asked(in_part(PROMOTED[1:], rest), promote)


def test_what_late_rows_leave_open_is_reconciled_first():
    undecided = {**VERDICT, "within": False, "alike": False, "undecided": ["gold.g"]}
    book = in_part([], {**undecided, "candidates": {"gold.g": "g2"}, "live": {"gold.g": "g1"}})
    with pytest.raises(NotWithin) as caught:
        asked(book, promote)
    assert "penstock reconcile gold.g" in caught.value.remedy


def test_how_often_other_tables_were_swapped_since_makes_no_difference():
    others = [
        Promotion("gold.z", f"z{n + 1}", f"z{n}", "promote", f"z{n}", n, "me", "", "", "")
        for n in range(300)
    ]
    for table in ("gold.g", "silver.s"):
        book = Book(revisions({"s2", "g2"}), [PROMOTED[0], *reversed(others), PROMOTED[1]])
        told = asked(book, lambda r, table=table: r.rollback(table, why="x"))
        assert told["to"] == [("silver.s", "s1"), ("gold.g", "g1")]
    staging = Staging(Database(book._done))
    assert staging.promotions("silver.s") == [PROMOTED[1]]
    assert staging.promotions(release="r1") == PROMOTED
    assert len(staging.promotions()) == 302
    assert staging.promotions(most=1) == PROMOTED[:1]


class Database:
    """The table of promotions, in a database that understands what the registry is asked."""

    def __init__(self, newest_first: list[Promotion]) -> None:
        self._duck = duckdb.connect(":memory:")
        oldest_first = [asdict(one) for one in reversed(newest_first)]
        rows = pa.Table.from_pylist([{**one, "number": n} for n, one in enumerate(oldest_first)])
        self._duck.register("promotion", rows.rename_columns({"table": "table_name"}))

    def run(self, sql: str, **given: object) -> list:
        spelt = sql.replace("at::text", '"at"')  # a word DuckDB keeps for itself
        return self._duck.execute(re.sub(r"(?<!:):(\w+)", r"$\1", spelt), given).fetchall()

    transaction = run
