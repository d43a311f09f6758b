"""Killed at any moment: what was committed counts once, what was not is done again."""

from __future__ import annotations

import random

import duckdb
import pytest

from penstock.runtime.delta.store import Store
from penstock.runtime.delta.writer import RevisionWriter
from penstock.testing import Kit
from tests.parity.kinds import CASES, event
from tests.parity.law import check

pytestmark = pytest.mark.spark

KINDS = ["group_changing", "totals", "latest", "history", "enrich", "updates", "session"]
# Where a process may die: before the table's commit, after it, and before its copy's.
PLACES = [
    (RevisionWriter, "commit", "before"),
    (RevisionWriter, "commit", "after"),
    (RevisionWriter, "take_over", "before"),
    (Store, "commit", "before"),
]


class Killed(Exception):
    """Stands for the end of the process."""


def dying(patch: pytest.MonkeyPatch, place: tuple, at: int) -> None:
    """Let the ``at``-th call from now on be the last thing the process does."""
    owner, name, when = place
    original, calls = getattr(owner, name), iter(range(10**6))

    def call(self, *args, **kwargs):
        here = next(calls) == at
        if here and when == "before":
            raise Killed
        result = original(self, *args, **kwargs)
        if here:
            raise Killed
        return result

    patch.setattr(owner, name, call)


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p[2]} {p[0].__name__}.{p[1]}")
@pytest.mark.parametrize("name", KINDS)
def test_a_table_survives_its_process(spark, tmp_path, monkeypatch, name, place):
    case, dice = CASES[name], random.Random(f"{name}{place[1:]}")
    names = list(case.schemas)
    kit = Kit(spark, tmp_path, case.table, case.schemas, changing=names if case.changing else ())
    make, number = case.make or event, 0
    for step in range(6):
        for source in names:
            rows = [make(dice, number + i, source) for i in range(6)]
            number += 6
            kit.feed(rows, source, follow=False)
        with monkeypatch.context() as patch:
            dying(patch, place, step % 3)
            try:
                kit.advance()
            except Killed:
                patch.undo()
                kit.restart()
        kit.advance()
    kit.reconcile()
    check(kit)


@pytest.mark.parametrize("name", ["group", "latest", "enrich"])
def test_a_damaged_copy_is_made_again(spark, tmp_path, name):
    case, dice = CASES[name], random.Random(name)
    kit = Kit(
        spark,
        tmp_path,
        case.table,
        case.schemas,
        changing=list(case.schemas) if case.changing else (),
    )
    make = case.make or event
    for source in case.schemas:
        kit.feed([make(dice, i, source) for i in range(12)], source)
    kit.follower.close()
    (copy,) = (tmp_path / "scratch").rglob("*.duckdb")
    copy.write_bytes(b"\0" * 4096)
    kit.restart()
    for source in case.schemas:
        kit.feed([make(dice, 100 + i, source) for i in range(12)], source)
    check(kit)


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("name", ["group", "latest", "enrich"])
def test_damage_that_shows_while_a_copy_is_brought_up(spark, tmp_path, name, block):
    """It can be opened; what is broken shows when it is asked."""
    case, dice = CASES[name], random.Random(f"{name} brought up")
    changing = list(case.schemas) if case.changing else ()
    kit = Kit(spark, tmp_path, case.table, case.schemas, changing=changing)
    make = case.make or event
    before: bytes | None = None
    for number in (0, 100):
        for source in reversed(case.schemas):
            kit.feed([make(dice, number + i, source) for i in range(12)], source)
        kit.follower.close()
        (copy,) = (tmp_path / "scratch").rglob("*.duckdb")
        before = before or copy.read_bytes()
        kit.restart()
    kit.follower.close()
    copy.write_bytes(damaged(before, block))
    kit.restart()
    try:
        kit.feed([make(dice, 200 + i, source) for i in range(12)], source)
    except duckdb.Error:  # rows that nothing had to look at before; the worker does the same
        kit.lose_copies()
    for source in case.schemas:
        kit.feed([make(dice, 300 + i, source) for i in range(12)], source)
    check(kit)


def damaged(database: bytes, which: int) -> bytes:
    """DuckDB's file with the checksum of one of its blocks wrong."""
    blocks = range(3 * 4096, len(database), 1 << 18)
    broken = bytearray(database)
    broken[blocks[which] + 8] ^= 0xFF
    return bytes(broken)
