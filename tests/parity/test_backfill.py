"""A damaged interval is computed again while rows keep coming: afterwards the table is the batch's.

The job works at one version of the inputs; rows, some of them late, come before the writer takes
its results over. What is outside the interval stays as it was, damaged or not.
"""

from __future__ import annotations

import datetime as dt
import random

import pytest

from penstock.errors import UsageError
from penstock.model.windows import Window
from penstock.reprocess.backfill import checked_interval
from penstock.reprocess.history import HistoryBuilder, Pinned
from penstock.runtime.backfill import backfill_timed
from penstock.runtime.change import Change
from penstock.runtime.times import EPOCH
from penstock.testing import Kit
from tests.parity.kinds import CASES, START, event
from tests.parity.law import check

pytestmark = pytest.mark.spark

TIMED = ["tumbling", "hopping", "offset", "updates", "updatable", "sliding", "join_left",
         "join_inner", "hopping_changing"]  # fmt: skip


def fed(spark, folder, name, seed) -> tuple[Kit, random.Random]:
    case, dice = CASES[name], random.Random(seed)
    changing = list(case.schemas) if case.changing else ()
    kit = Kit(spark, folder, case.table, case.schemas, changing=changing)
    for step in range(4):
        for source in case.schemas:
            kit.feed([event(dice, 30 * step + n, source) for n in range(12)], source)
    return kit, dice


def damage(kit: Kit, dice: random.Random) -> int:
    """Take rows out of the table behind everybody's back; returns how many."""
    follower = kit.follower
    upserts = follower.upserts or follower.spans()
    rows = upserts.rows_between(None, None)
    some = rows.take(dice.sample(range(rows.num_rows), max(1, rows.num_rows // 2)))
    change = Change(rows.slice(0, 0), some)
    follower.writer.commit(upserts.rewrite(change), {}, change=change)
    return some.num_rows


def built(kit: Kit, folder, start: int, end: int) -> dict:
    pinned = {
        argument: Pinned(given.name, given.source.path, given.source.schema,
                         kit.follower.positions[given.name])
        for argument, given in kit.follower.inputs.items()
    }  # fmt: skip
    builder = HistoryBuilder(
        kit.session,
        kit.table,
        into=folder / "t",
        beside=folder / "o",
        schema=kit.follower.writer.schema,
        inputs=pinned,
    )
    piece = builder.interval(start, end)
    return {
        "start": start,
        "end": end,
        "files": [str(builder.path / a["add"]["path"]) for a in piece.adds],
        "inputs": {p.name: p.version for p in pinned.values()},
        "who": "me",
        "why": "a test",
    }


@pytest.mark.parametrize("name", TIMED)
def test_a_damaged_interval_is_mended_while_rows_come(spark, tmp_path, name):
    kit, dice = fed(spark, tmp_path / "kit", name, seed=3)
    kit.reconcile()
    step = kit.table.kind.us("every") if isinstance(kit.table.kind, Window) else 1
    last = kit.follower.limit()
    if isinstance(kit.table.kind, Window):
        last += (kit.table.kind.us("offset") - last) % step
    first = last - 60 * 1_000_000 * (step if step > 1 else 1_000_000) // 1_000_000
    assert damage(kit, dice) > 0
    assert kit.rows() != kit.batch_rows()
    told = built(kit, tmp_path / "job", first, last)
    for source in kit.feeds:  # meanwhile, some of it late
        kit.feed([event(dice, 130 + n, source) for n in range(10)], source)
        kit.feed([event(dice, 100 + n, source) for n in range(4)], source)
    done = backfill_timed(kit.follower, told)
    kit.restart()
    kit.advance()
    kit.reconcile()
    point = kit.table.kind.point
    inside = [r for r in kit.rows() if first <= _micros(r[point]) < last]
    wanted = [r for r in kit.batch_rows() if first <= _micros(r[point]) < last]
    assert inside == wanted
    assert inside, "or nothing is shown"
    assert done["changed"] > 0
    assert not any(kit.balance().values())


def _micros(at: dt.datetime) -> int:
    return (at - EPOCH) // dt.timedelta(microseconds=1)


def test_a_sound_interval_is_left_alone(spark, tmp_path):
    kit, _ = fed(spark, tmp_path / "kit", "tumbling", seed=5)
    kit.reconcile()
    version = kit.follower.writer.log.version
    size = kit.table.kind.us("size")
    last = kit.follower.limit() // size * size
    told = built(kit, tmp_path / "job", last - 10 * size, last)
    done = backfill_timed(kit.follower, told)
    assert (done["changed"], kit.follower.writer.log.version) == (0, version)
    check(kit)


def test_intervals_that_make_no_sense(spark, tmp_path):
    table = CASES["tumbling"].table
    size = dt.timedelta(microseconds=table.kind.us("size"))
    aligned = EPOCH + (START - EPOCH) // size * size
    now = aligned + 100 * size
    closed = _micros(aligned + 50 * size)

    def asked(start, end, of=table):
        return checked_interval(of, start, end, now=now, closed=closed)

    assert asked(aligned, aligned + size) == (_micros(aligned), _micros(aligned + size))
    with pytest.raises(UsageError, match="not after it begins"):
        asked(aligned + size, aligned)
    with pytest.raises(UsageError, match="has not come yet"):
        asked(aligned, now + size)
    with pytest.raises(UsageError, match="not where a window") as error:
        asked(aligned + size / 2, aligned + size)
    assert aligned.isoformat() in str(error.value)
    with pytest.raises(UsageError, match="still open"):
        asked(aligned, aligned + 60 * size)
    with pytest.raises(UsageError, match="--all"):
        asked(aligned, aligned + size, CASES["totals"].table)
