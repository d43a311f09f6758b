"""A damaged interval is computed again while rows keep coming: afterwards the table is the batch's.

The job works at one version of the inputs; rows, some of them late, come before the writer takes
its results over. What is outside the interval stays as it was, damaged or not.
"""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from penstock.errors import UsageError
from penstock.model import Group, table, tumbling
from penstock.model.windows import Window
from penstock.reprocess.backfill import checked_interval
from penstock.reprocess.correction import Correction, Held
from penstock.reprocess.history import HistoryBuilder, Pinned
from penstock.runtime.delta.change import Change
from penstock.runtime.fates import late
from penstock.runtime.fates.quarantined import held_in
from penstock.runtime.kinds.backfill import backfill_timed
from penstock.runtime.kinds.backfill_net import backfill_net
from penstock.runtime.times import EPOCH
from penstock.testing import Kit
from tests.parity.kinds import CASES, EVENTS, STAMP, START, event
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
        condemned=set(held_in(kit.follower.broken)["row_id"].to_pylist()),
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


@table(
    "gold.fragile",
    inputs={"events": "silver.events"},
    kind=tumbling("5 seconds", on="t", lateness="2 seconds"),
    keys=("k", "window_start"),
)
def fragile(events):
    ratio = F.sum(F.lit(100) / (F.col("v") - 13)).cast("long").alias("ratio")
    return events.groupBy("k", "window_start", "window_end").agg(
        ratio, F.count(F.lit(1)).alias("rows")
    )


def test_rows_in_quarantine_are_left_out_of_the_interval(spark, tmp_path):
    kit = Kit(spark, tmp_path / "kit", fragile, {"silver.events": EVENTS})
    kit.feed([
        {"k": "a", "v": 13 if n == 12 else 14, "t": START + dt.timedelta(seconds=n), "n": n}
        for n in range(40)
    ])  # fmt: skip
    assert [r["error_class"] for r in kit.quarantined()] == ["transform_error"]
    wanted = kit.rows()
    assert damage(kit, random.Random(1)) > 0
    first = _micros(START)
    told = built(kit, tmp_path / "job", first, first + 30_000_000)
    assert backfill_timed(kit.follower, told)["changed"] > 0
    assert kit.rows() == wanted == kit.batch_rows()
    assert [r["rows"] for r in wanted][:6] == [5, 5, 4, 5, 5, 5]


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


# --- tables without windows ---------------------------------------------------------------------
OTHERS = [
    "rows", "rows_changing", "group", "group_changing", "group_two", "totals", "totals_changing",
    "latest", "latest_changing", "history", "enrich", "session",
]  # fmt: skip


def made(case, dice, number, source):
    """A row that has a time: one without is in no interval."""
    row = (case.make or event)(dice, number, source)
    return {**row, "t": row["t"] or START} if "t" in row else row


def lose_half(kit: Kit, dice: random.Random) -> int:
    """Half the rows lost, behind everybody's back; returns how many."""
    layout = kit.follower.layout()
    rows = layout.read(layout.files.values())
    lost = rows.take(dice.sample(range(rows.num_rows), max(1, rows.num_rows // 2)))
    change = Change(rows.slice(0, 0), lost)
    kit.follower.writer.commit(layout.rewrite(change), {}, change=change)
    return lost.num_rows


def corrected(kit: Kit, into, start: int, end: int, on=None) -> dict:
    """What the job hands over."""
    follower = kit.follower
    pinned = {
        a: Pinned(g.name, g.source.path, g.source.schema, follower.positions[g.name])
        for a, g in follower.inputs.items()
    }
    held = Held(
        follower.writer.path,
        follower.writer.log.version,
        follower.writer.schema,
        held_in(follower.broken),
        late.lines(follower.late_table),
        getattr(follower, "watermark", None),
    )
    job = Correction(
        kit.session, kit.table, held, pinned, decodes=kit.stream,
        schemas=next(iter(kit.feeds.values())) if kit.stream else None,
    )  # fmt: skip
    told = job.written(start, end, on, into)
    inputs = {p.name: p.version for p in pinned.values()}
    return {**told, "inputs": inputs, "info": {"who": "me", "why": "a test"}}


EVER = (_micros(START - dt.timedelta(days=1)), _micros(START + dt.timedelta(days=1)))


@pytest.mark.parametrize("name", OTHERS)
def test_a_damaged_table_without_windows_is_mended_while_rows_come(spark, tmp_path, name):
    case, dice = CASES[name], random.Random(7)
    changing = list(case.schemas) if case.changing else ()
    kit = Kit(spark, tmp_path / "kit", case.table, case.schemas, changing=changing)
    number = 0
    for _ in range(3):
        for source in case.schemas:
            kit.feed([made(case, dice, number + n, source) for n in range(12)], source)
            number += 12
    kit.reconcile()
    assert lose_half(kit, dice) > 0
    assert kit.rows() != kit.batch_rows()
    kit.follower.stand()
    on = "t" if case.table.kind.word == "rows" else None
    told = corrected(kit, tmp_path / "job", *EVER, on=on)
    for source in case.schemas:  # meanwhile; most keys are left alone, or the stream mends them all
        rows = [made(case, dice, number + n, source) for n in range(5)]
        rows = rows[:1] if "valid_from" in rows[0] else [{**r, "k": "a"} for r in rows]
        kit.feed([{**r, "cut": False} if "cut" in r else r for r in rows], source)
        number += 5
    done = backfill_net(kit.follower, told)
    assert done["changed"] > 0
    kit.restart()
    kit.advance()
    kit.reconcile()
    check(kit)


def test_only_what_the_interval_names_is_touched(spark, tmp_path):
    case, dice = CASES["rows"], random.Random(3)
    kit = Kit(spark, tmp_path / "kit", case.table, case.schemas)
    kit.feed([{**event(dice, n, ""), "t": START + dt.timedelta(seconds=n)} for n in range(40)])
    whole = kit.rows()
    lose_half(kit, dice)
    damaged = kit.rows()
    half = _micros(START + dt.timedelta(seconds=20))
    backfill_net(kit.follower, corrected(kit, tmp_path / "job", EVER[0], half, on="t"))
    cut = START + dt.timedelta(seconds=20)
    assert [r for r in kit.rows() if r["t"] < cut] == [r for r in whole if r["t"] < cut]
    assert [r for r in kit.rows() if r["t"] >= cut] == [r for r in damaged if r["t"] >= cut]


def test_a_correction_meanwhile_is_not_undone(spark, tmp_path):
    case, dice = CASES["rows"], random.Random(3)
    kit = Kit(spark, tmp_path / "kit", case.table, case.schemas)
    kit.feed([event(dice, n, "") for n in range(20)])
    lose_half(kit, dice)
    told = corrected(kit, tmp_path / "job", *EVER, on="t")
    assert backfill_net(kit.follower, told)["changed"] > 0
    with pytest.raises(UsageError, match="corrected by another operation"):
        backfill_net(kit.follower, told)


SPANS = pa.schema(
    [(n, pa.string() if n == "k" else STAMP) for n in ("k", "window_start", "window_end")]
)


@table("gold.of_two_times", inputs={"events": "silver.events", "spans": "silver.spans"},
       kind=Group(by=("k",)), keys=("k",))  # fmt: skip
def of_two_times(events, spans):
    return events.select("k").unionByName(spans.select("k")).groupBy("k").count()


def test_each_input_has_a_time_of_its_own(spark, tmp_path):
    """Of the groups lost, those come back that a row of either input in the interval names."""
    schemas = {"silver.events": EVENTS, "silver.spans": SPANS}
    kit = Kit(spark, tmp_path / "kit", of_two_times, schemas)
    early, late_on = START, START + dt.timedelta(hours=1)
    moments = {"a": (early, late_on), "b": (late_on, early), "c": (late_on, late_on)}
    kit.feed([{"k": k, "t": at} for k, (at, _) in moments.items()], "silver.events")
    kit.feed(
        [{"k": k, "window_start": at, "window_end": late_on} for k, (_, at) in moments.items()],
        "silver.spans",
    )
    layout = kit.follower.layout()
    lost = Change(kit.follower.writer.schema.empty_table(), layout.read(layout.files.values()))
    kit.follower.writer.commit(layout.rewrite(lost), {}, change=lost)
    kit.follower.stand()
    half = _micros(START + dt.timedelta(minutes=30))
    assert kit.rows() == []
    backfill_net(kit.follower, corrected(kit, tmp_path / "job", EVER[0], half))
    assert [(row["k"], row["count"]) for row in kit.rows()] == [("a", 2), ("b", 2)]


def test_which_time_is_meant(spark, tmp_path):
    kit = Kit(spark, tmp_path / "kit", CASES["rows"].table, CASES["rows"].schemas)
    kit.feed([event(random.Random(1), 1, "")])
    with pytest.raises(UsageError, match="no time column 'nope'"):
        corrected(kit, tmp_path / "job", *EVER, on="nope")
