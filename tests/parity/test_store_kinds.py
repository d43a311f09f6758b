"""The law again with the tables in an object store: kinds by layout, and deaths at any moment."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from penstock.location import Remote, walk
from penstock.testing import Kit
from tests.parity.kinds import CASES, event
from tests.parity.law import check, live
from tests.parity.test_crashes import PLACES, Killed, dying
from tests.s3 import S3Server

pytestmark = pytest.mark.spark

# One of each layout: appended, bucketed over a changing input, spans that are updated, joined.
KINDS = ["rows", "group_changing", "updates", "enrich"]


@pytest.fixture
def far(s3: S3Server, tmp_path: Path) -> Remote:
    return Remote(s3.bucket(uuid.uuid4().hex, tmp_path / "copies" / "files"))


@pytest.mark.parametrize("name", KINDS)
def test_stream_is_batch(spark, far, name):
    kit = live(spark, far, CASES[name], seed=1, steps=10)
    check(kit)
    assert any(found.name.endswith(".parquet") for found in walk(far))


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p[2]} {p[0].__name__}.{p[1]}")
def test_a_table_survives_its_process(spark, far, monkeypatch, place):
    case, dice = CASES["totals"], random.Random(f"far{place[1:]}")
    names = list(case.schemas)
    kit = Kit(spark, far, case.table, case.schemas, changing=names if case.changing else ())
    make, number = case.make or event, 0
    for step in range(3):
        for source in names:
            kit.feed([make(dice, number + i, source) for i in range(6)], source, follow=False)
            number += 6
        with monkeypatch.context() as patch:
            dying(patch, place, step)
            try:
                kit.advance()
            except Killed:
                patch.undo()
                kit.restart()
        kit.advance()
    kit.reconcile()
    check(kit)


def test_a_history_that_was_built_as_a_batch_is_taken_over(spark, far):
    """Spark writes the files; they are put into the store, and the writer commits them."""
    case = CASES["updates"]
    kit = Kit(spark, far, case.table, case.schemas)
    dice = random.Random(3)
    kit.feed([event(dice, n, "silver.events") for n in range(200)])
    built = kit.candidate(case.table, build=True)
    kit.feed([event(dice, 200 + n, "silver.events") for n in range(20)])
    built.advance()
    for one in (kit, built):
        one.reconcile()
        check(one)
    assert any("/batch-" in str(found.location) for found in walk(far))
