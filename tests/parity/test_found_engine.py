"""Lives that once broke the law, kept small: every kind over its tables, and the worker."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from penstock.errors import TransformError
from penstock.model import Enrich, Group, Rows, Totals, hopping, session, sliding, table, tumbling
from penstock.runtime.supervise.worker import FollowWorker, Order
from penstock.testing import Kit
from tests.parity.kinds import CASES, DIMENSION, EVENTS, START
from tests.parity.law import check

pytestmark = pytest.mark.spark

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TIMES = {"on": "t", "lateness": "3 seconds", "reconcile_within": "40 seconds"}
NESTED = pa.schema([("k", pa.string()), ("xs", pa.list_(pa.int64()))])
POISON = 7  # of this value no table here that minds can be computed


def at(seconds: float, since: dt.datetime = START) -> dt.datetime:
    return since + dt.timedelta(seconds=seconds)


def event(key: str, t: dt.datetime | None, n: int, v: int = 1) -> dict[str, Any]:
    return {"k": key, "v": v, "t": t, "n": n}


def change(key: str | None, t: dt.datetime | None, n: int, *, cut: bool = False) -> dict[str, Any]:
    return {"k": key, "v": n, "t": t, "n": n, "gone": False, "cut": cut, "snap": False}


def kit_of(spark, folder, name: str) -> Kit:
    case = CASES[name]
    changing = list(case.schemas) if case.changing else ()
    return Kit(spark, folder, case.table, case.schemas, changing=changing)


def minding(name: str, kind: Any, by: str = "window_start") -> Any:
    """A windowed table that a single row can break."""

    @table(name, inputs={"events": "silver.events"}, kind=kind, keys=("k", by))
    def windowed(events):
        strict = f"cast(case when v = {POISON} then 'x' else string(v) end as int)"
        rows = events.withColumn("w", F.expr(strict))
        return rows.groupBy("k", "window_start", "window_end").agg(
            F.sum("w").alias("total"), F.count(F.lit(1)).alias("rows")
        )

    return windowed


# --- keyed tables ------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["latest_changing", "history_changing"])
def test_a_key_deleted_beside_a_truncation_is_gone(spark, tmp_path, name):
    """A key whose only row is deleted leaves the table, though the batch has a truncation that
    does not reach it; keys the batch does not speak of stay."""
    kit = kit_of(spark, tmp_path, name)
    row = change("a", at(50), 50)
    kit.feed([row, change("b", at(51), 51)])
    kit.remove([row], follow=False)
    kit.feed([change(None, at(1), 1, cut=True)], follow=False)
    kit.advance()
    assert [r["k"] for r in kit.rows()] == ["b"]
    check(kit)


def test_a_row_without_its_order_is_older_than_a_truncation(spark, tmp_path):
    """Null comes first in the order: a truncation takes such a row along, in stream and in batch,
    whether or not a newer row of its key has come in between."""
    kit = kit_of(spark, tmp_path, "latest")
    kit.feed([change("a", at(5), 5), change("a", None, 6), change("b", None, 7)])
    kit.feed([change("a", at(6), 8)])
    kit.feed([change(None, at(10), 10, cut=True)])
    assert kit.rows() == []
    check(kit)


@table("gold.amounts", inputs={"events": "silver.events"}, kind=Totals(by=("k",)))
def amounts(events):
    return events.select("k", F.col("v").alias("amount"))


def test_a_sum_that_overflows_parks_the_table(spark, tmp_path):
    """A total too big for its column is the transform's error, not one to be tried for ever; what
    was there before stays as it was."""
    kit = Kit(spark, tmp_path, amounts, EVENTS)
    kit.feed([event("a", at(0), 1, v=9 * 10**18)])
    with pytest.raises(TransformError):
        kit.feed([event("a", at(1), 2, v=9 * 10**18)])
    kit.restart()
    assert kit.rows() == [{"k": "a", "amount": 9 * 10**18}]
    with pytest.raises(TransformError):
        kit.advance()


# --- groups ------------------------------------------------------------------------------------
@table(
    "gold.lengths",
    inputs={"left": "silver.left", "right": "silver.right"},
    kind=Group(by=("k",)),
    keys=("k",),
)
def lengths(left, right):
    return left.unionByName(right).groupBy("k").agg(F.sum(F.size("xs")).alias("length"))


def test_a_group_with_a_nested_column_may_lack_rows(spark, tmp_path):
    """A frame without rows is as good as any: of an input that has said nothing of a group yet,
    and of a group whose last row was deleted."""
    schemas = {"silver.left": NESTED, "silver.right": NESTED}
    kit = Kit(spark, tmp_path, lengths, schemas, changing=["silver.left"])
    row = {"k": "x", "xs": [1, 2]}
    kit.feed([row], "silver.left")
    assert kit.rows() == [{"k": "x", "length": 2}]
    kit.feed([{"k": "y", "xs": [1]}], "silver.right")
    kit.remove([row], "silver.left")
    assert kit.rows() == [{"k": "y", "length": 1}]
    check(kit)


@table("gold.own_lengths", inputs={"left": "silver.left"}, kind=Group(by=("k",)), keys=("k",))
def own_lengths(left):
    return left.groupBy("k").agg(F.sum(F.size("xs")).alias("length"))


def test_the_last_row_of_a_group_with_a_nested_column_is_deleted(spark, tmp_path):
    """The only input has nothing left of any group: the table is empty, and goes on."""
    kit = Kit(spark, tmp_path, own_lengths, NESTED, changing=["silver.left"])
    row = {"k": "x", "xs": [1, 2]}
    kit.feed([row])
    kit.remove([row])
    assert kit.rows() == []
    kit.feed([row])
    check(kit)


# --- enriched facts ----------------------------------------------------------------------------
def test_a_fact_without_a_time_can_be_deleted(spark, tmp_path):
    """A fact without a time leaves the table when its row is deleted, though a timed fact in the
    same batch says where in time to look."""
    kit = kit_of(spark, tmp_path, "enrich")
    timeless, timed = event("a", None, 1), event("a", at(3), 2)
    kit.feed([timeless, timed, event("a", at(9), 3)], "silver.events")
    kit.remove([timeless, timed], "silver.events")
    assert [r["n"] for r in kit.rows()] == [3]
    check(kit)


@table(
    "gold.only_coloured",
    inputs={"events": "silver.events", "colours": "silver.colours"},
    kind=Enrich(by=("k",), on="t"),
    keys=("n",),
)
def only_coloured(events):
    return events.where("colours.colour is not null").select("n", "k", "t")


def test_a_dimension_that_lets_a_fact_in_or_out_moves_its_outcome(spark, tmp_path):
    """A fact is counted while a version of its dimension lets it in, filtered while none does, and
    neither once it is deleted."""
    names = {"silver.events": EVENTS, "silver.colours": DIMENSION}
    kit = Kit(spark, tmp_path, only_coloured, names, changing=list(names))
    fact = event("a", at(1), 1)
    red = {"k": "a", "colour": "red", "valid_from": at(0), "valid_to": None}

    def facts() -> dict[str, int]:
        told: dict[str, int] = {}
        for row in kit._outcome_rows():
            if row["input"] == "silver.events":
                told[row["outcome"]] = told.get(row["outcome"], 0) + row["rows"]
        return {outcome: rows for outcome, rows in told.items() if rows}

    kit.feed([fact], "silver.events")
    assert facts() == {"filtered": 1}
    kit.feed([red], "silver.colours")
    assert facts() == {"counted": 1}
    assert len(kit.rows()) == 1
    kit.remove([red], "silver.colours")
    assert facts() == {"filtered": 1}
    kit.feed([red], "silver.colours")
    kit.remove([fact], "silver.events")
    assert facts() == {}
    check(kit)


# --- time --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["tumbling", "session"])
def test_times_before_1970_survive_a_restart(spark, tmp_path, name):
    """A clock below zero is a clock: it is committed and read again, nothing is written twice."""
    kit = kit_of(spark, tmp_path, name)
    for second in (-40, -30, -20):
        kit.feed([event("a", at(second, EPOCH), second)])
    kit.follower.settle(now=True)
    before = kit.follower.watermark, kit.rows()
    assert before[0] == -23_000_000
    assert len(before[1]) == 2
    kit.restart()
    assert (kit.follower.watermark, kit.rows()) == before
    kit.feed([event("a", at(-5, EPOCH), 1)])
    kit.feed([event("a", at(60, EPOCH), 2)])
    kit.reconcile()
    assert len(kit.rows()) == 4
    check(kit)


def test_a_clock_of_exactly_zero_does_not_go_back(spark, tmp_path):
    """Zero is a time like any other: an older row after it is late."""
    kit = kit_of(spark, tmp_path, "tumbling")
    kit.feed([event("a", EPOCH, 0)])
    kit.feed([event("a", at(-30, EPOCH), 1)])
    assert kit.follower.watermark == -3_000_000
    assert kit.outcomes() == {"counted": 1, "late": 1}
    kit.restart()
    assert kit.follower.watermark == -3_000_000


@table(
    "gold.busy_sessions",
    inputs={"events": "silver.events"},
    kind=session("3 seconds", by=("k",), **TIMES),
    keys=("k", "window_start"),
)
def busy_sessions(events):
    counted = events.groupBy("k", "window_start", "window_end").agg(F.count("n").alias("rows"))
    return counted.where("rows >= 2")


def test_a_late_row_joins_a_session_the_transform_left_out(spark, tmp_path):
    """Reconcile finds a session by its rows: that the table has no row of it says nothing."""
    kit = Kit(spark, tmp_path, busy_sessions, EVENTS)
    kit.feed([event("a", at(0), 1)])
    kit.feed([event("b", at(20), 2)])
    kit.feed([event("a", at(1), 3)])
    assert kit.rows() == []
    kit.reconcile()
    assert [(r["k"], r["rows"]) for r in kit.rows()] == [("a", 2)]
    check(kit)


# --- rows that break a window --------------------------------------------------------------------
def test_a_poison_row_of_a_window_is_quarantined_and_not_counted(spark, tmp_path):
    """A row that breaks its window has one outcome, quarantined; its neighbours are counted. Once
    it is deleted it has none, not one less than none."""
    strict = minding("gold.strict", tumbling("4 seconds", **TIMES))
    kit = Kit(spark, tmp_path, strict, EVENTS, changing=["silver.events"])
    poison = event("a", at(1), 2, POISON)
    kit.feed([event("a", at(0), 1), poison])
    kit.feed([event("a", at(20), 3)])
    assert len(kit.quarantined()) == 1
    assert kit.outcomes() == {"counted": 2, "quarantined": 1}
    assert [r["rows"] for r in kit.rows()] == [1]
    check(kit)
    kit.remove([poison])
    assert kit.outcomes() == {"counted": 2}
    check(kit)


def test_a_row_that_breaks_python_code_is_quarantined(spark, tmp_path):
    @F.udf("long")
    def strict(v):
        if v == POISON:
            raise ValueError("not seven")
        return v

    @table("gold.checked", inputs={"rows": "silver.rows"}, kind=Rows())
    def checked(rows):
        return rows.select("k", strict("v").alias("v"))

    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    kit = Kit(spark, tmp_path, checked, schema)
    kit.feed([{"k": "a", "v": 1}, {"k": "b", "v": POISON}, {"k": "c", "v": 3}])
    assert [row["k"] for row in kit.rows()] == ["a", "c"]
    (bad,) = kit.quarantined()
    assert "not seven" in bad["error"]
    kit.feed([{"k": "d", "v": 4}])
    assert kit.outcomes() == {"counted": 3, "quarantined": 1}


def test_late_poison_rows_of_overlapping_windows_count_nowhere(spark, tmp_path):
    """Late for some windows, in time for others, too late for the rest: nowhere is a poison row
    counted, and no outcome is ever below zero."""
    kind = hopping("6 seconds", every="2 seconds", **{**TIMES, "reconcile_within": "10 seconds"})
    kit = Kit(spark, tmp_path, minding("gold.strict_hops", kind), EVENTS)
    kit.feed([event("a", at(0), 1), event("a", at(20), 2)])
    kit.feed([event("a", at(13), 3, POISON), event("a", at(8), 4, POISON), event("a", at(8), 5)])
    kit.reconcile()
    check(kit)
    kit.feed([event("a", at(40), 6)])
    kit.reconcile()
    assert len(kit.quarantined()) == 2
    check(kit)


def test_a_late_poison_row_within_an_open_sliding_window_is_found(spark, tmp_path):
    """Late for its own window, but within those of rows still to come: these are computed without
    it, it is quarantined once, and reconcile does not bring it back."""
    kind = sliding("9 seconds", by=("k",), **{**TIMES, "lateness": "0 seconds"})
    kit = Kit(spark, tmp_path, minding("gold.strict_slides", kind, "window_end"), EVENTS)
    kit.feed([event("a", at(0), 1), event("a", at(5), 2)])
    kit.feed([event("a", at(4), 3, POISON)])
    kit.feed([event("a", at(6), 4)])
    kit.feed([event("a", at(7), 5)])
    assert len(kit.quarantined()) == 1
    kit.reconcile()
    assert len(kit.quarantined()) == 1
    check(kit)


# --- the worker ----------------------------------------------------------------------------------
def test_an_order_does_not_swallow_a_broken_transform():
    """Whoever gave the order hears of it, and so does the worker, which parks the table: a batch
    that failed on the way to the order must not be passed over."""

    class Broken:
        def advance(self) -> bool:
            raise TransformError("it does not compute")

    done, failed, woken = [], [], []
    worker = FollowWorker("gold.x", Broken, lambda: None, lambda: woken.append(1))  # type: ignore
    worker.order(Order(lambda follower: {}, done.append, failed.append))
    with pytest.raises(TransformError):
        worker._obey(Broken())
    assert failed == ["it does not compute"]
    assert (done, woken) == ([], [])


# --- facts that nothing tells apart -------------------------------------------------------------
@pytest.mark.parametrize("together", [False, True])
def test_of_two_equal_facts_one_stays_when_the_other_goes(spark, tmp_path, together):
    kit = kit_of(spark, tmp_path, "enrich")
    same, other = event("a", at(1), 1), event("b", at(1), 2)
    kit.feed([same, same, other], to="silver.events")
    kit.remove([same], "silver.events", follow=not together)
    if together:
        kit.feed([other], to="silver.events")
    assert sorted(row["n"] for row in kit.rows()) == ([1, 2, 2] if together else [1, 2])
    check(kit)
    kit.remove([same], "silver.events")
    assert {row["n"] for row in kit.rows()} == {2}
    check(kit)
