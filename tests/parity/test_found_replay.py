"""Lives of tables over a stream that once broke the law: dedupe, quarantine, replay, kills."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import functions as F

from penstock.model import Contract, Dedupe, EventTime, Matches, Rows, Totals, stream, table
from penstock.runtime.kinds import rows as rows_module
from penstock.runtime.mend.replay import replay
from penstock.testing import Kit
from tests.parity.law import check

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 2, 1, 12, tzinfo=dt.UTC)
HOUR, SECOND = dt.timedelta(hours=1), dt.timedelta(seconds=1)
TICK = dt.timedelta(microseconds=1)
STRICT, MENDED = "cast(v as int)", "coalesce(try_cast(v as int), -1)"
CODE = {"v": STRICT}  # what the transforms say of v: a test may mend it and restart

READINGS = stream(
    "bronze.readings",
    topic="readings",
    event_time=EventTime.RECORD,
    contract=Contract(
        subject="readings-value",
        schema={
            "type": "record",
            "name": "Reading",
            "fields": [{"name": name, "type": "string"} for name in ("id", "k", "v")],
        },
        rules=[Matches("k", "[a-z]+")],
    ),
)


def rows_table(name, dedupe=None):
    @table(name, inputs={"readings": READINGS}, kind=Rows(), dedupe=dedupe)
    def made(readings):
        return readings.select("id", "k", F.expr(CODE["v"]).alias("v"))

    return made


def totals_table(name, dedupe=None):
    @table(name, inputs={"readings": READINGS}, kind=Totals(by=("k",)), dedupe=dedupe)
    def made(readings):
        return readings.select("k", F.expr(CODE["v"]).alias("v"), F.lit(1).alias("rows"))

    return made


PLAIN = rows_table("silver.plain")
ONCE = rows_table("silver.once", Dedupe(("id",), "1 hour"))
BRIEFLY = rows_table("silver.briefly", Dedupe(("id",), "10 seconds"))
SUMS = totals_table("silver.sums")
SUMS_ONCE = totals_table("silver.sums_once", Dedupe(("id",), "1 hour"))


def row(name: str, v: str = "1", k: str = "a") -> dict:
    return {"id": name, "k": k, "v": v}


def values(kit: Kit) -> list[tuple[str, int]]:
    return sorted((r["id"], r["v"]) for r in kit.rows())


def feed_unreadable(kit: Kit, rows: list[dict], at: dt.datetime) -> None:
    """Rows whose writer's schema the registry comes to know only afterwards."""
    writers = kit.feeds["bronze.readings"].writers
    schema = writers.pop(1)
    kit.feed(rows, at=at)
    assert len(kit.quarantined()) == len(rows)
    writers[1] = schema


def killed(*_):
    raise RuntimeError("killed")


def test_a_row_after_a_poison_row_of_its_key_is_a_duplicate_until_it_is_replayed(
    spark, tmp_path, monkeypatch
):
    """A row that breaks the transform was the first of its key all the same, in batch as in stream.
    Replayed with the transform mended it counts, and is not its own duplicate; those after it still
    are."""
    kit = Kit(spark, tmp_path, ONCE, stream=READINGS)
    kit.feed([row("1", "x"), row("2", "2")], at=NOON)
    kit.feed([row("1", "5")], at=NOON + HOUR / 4)
    assert values(kit) == [("2", 2)]
    assert kit.outcomes() == {"counted": 1, "duplicate": 1, "quarantined": 1}
    check(kit)
    assert replay(kit.follower) == {"replayed": 0, "still_bad": 1, "asked": 1}

    monkeypatch.setitem(CODE, "v", MENDED)
    kit.restart()
    assert replay(kit.follower)["replayed"] == 1
    assert values(kit) == [("1", -1), ("2", 2)]
    assert kit.quarantined() == []
    kit.feed([row("1", "6")], at=NOON + HOUR / 2)
    assert kit.outcomes() == {"counted": 2, "duplicate": 2}
    check(kit)


def test_a_replayed_row_is_no_duplicate_of_one_beyond_the_horizon(spark, tmp_path):
    """A row that broke the contract is compared with the rows around its own time, not with what
    was seen last: one of its key hours later does not make it a duplicate."""
    kit = Kit(spark, tmp_path, ONCE, stream=READINGS)
    feed_unreadable(kit, [row("1", "1")], at=NOON)
    kit.feed([row("1", "2")], at=NOON + 3 * HOUR)
    assert values(kit) == [("1", 2)]
    assert replay(kit.follower) == {"replayed": 1, "still_bad": 0, "asked": 1}
    assert values(kit) == [("1", 1), ("1", 2)]
    assert kit.outcomes() == {"counted": 2}
    check(kit)


def test_a_big_batch_that_breaks_half_way_quarantines_once(spark, tmp_path, monkeypatch):
    """Many rows go through Spark's writers; when a row breaks the transform there, the rows the
    contract refused must not be in quarantine from both ways."""
    monkeypatch.setattr(rows_module, "BIG_BATCH_ROWS", 3)
    kit = Kit(spark, tmp_path, PLAIN, stream=READINGS)
    kit.feed([row("1"), row("2", k="NOT OK"), row("3", "x"), row("4", "4"), row("5", "5")])
    assert values(kit) == [("1", 1), ("4", 4), ("5", 5)]
    assert [r["offset"] for r in kit.quarantined()] in ([1, 2], [2, 1])
    assert kit.outcomes() == {"counted": 3, "quarantined": 2}
    check(kit)


def test_a_merge_the_store_did_not_see_is_not_lost(spark, tmp_path, monkeypatch):
    """Killed after a replay is in the table and before it is in the store: the next batch of the
    same key builds on the replayed rows."""
    kit = Kit(spark, tmp_path, SUMS, stream=READINGS)
    feed_unreadable(kit, [row("1", "1")], at=NOON)
    kit.feed([row("2", "10")])
    monkeypatch.setattr(kit.follower.store, "commit", killed)
    with pytest.raises(RuntimeError, match="killed"):
        replay(kit.follower)
    kit.restart()
    assert kit.rows() == [{"k": "a", "v": 11, "rows": 2}], "the table has it already"
    kit.feed([row("3", "100")])
    assert kit.rows() == [{"k": "a", "v": 111, "rows": 3}]
    assert kit.quarantined() == []
    check(kit)


def test_totals_that_deduplicate_outlive_their_store(spark, tmp_path):
    """The store made again from bronze leaves out what was a duplicate then, and still knows what
    is one now."""
    kit = Kit(spark, tmp_path, SUMS_ONCE, stream=READINGS)
    kit.feed([row("1")])
    kit.feed([row("1"), row("2")])
    kit.lose_copies()
    kit.feed([row("2"), row("3")])
    assert kit.rows() == [{"k": "a", "v": 3, "rows": 3}]
    assert kit.outcomes() == {"counted": 3, "duplicate": 2}
    check(kit)


def test_a_refill_looks_back_the_whole_horizon_to_the_microsecond(spark, tmp_path):
    """What is remembered after a loss reaches as far back as before it, though files know their
    newest time only to the millisecond."""
    kit = Kit(spark, tmp_path, BRIEFLY, stream=READINGS)
    kit.feed([row("1")], at=NOON + 200 * TICK)
    kit.feed([row("2")], at=NOON + 10 * SECOND + 100 * TICK)
    kit.lose_copies()
    kit.feed([row("1", "9")], at=NOON + 10 * SECOND + 150 * TICK)
    assert values(kit) == [("1", 1), ("2", 1)]
    check(kit)


def test_a_void_row_that_only_mended_code_can_make_is_told_of(spark, tmp_path, caplog, monkeypatch):
    """The row stays until a backfill: the table's own code cannot say which it is."""
    kit = Kit(spark, tmp_path, rows_table("silver.told"), stream=READINGS)
    kit.feed([{"id": "1", "k": "a", "v": "1"}, {"id": "2", "k": "a", "v": "x"}], at=NOON)
    monkeypatch.setitem(CODE, "v", MENDED)
    kit.restart()
    assert replay(kit.follower)["replayed"] == 1
    monkeypatch.setitem(CODE, "v", STRICT)
    kit.restart()
    kit.void([1], "wrong")
    assert "backfill silver.told --all" in caplog.text
    assert len(kit.rows()) == 2
    assert not any(kit.balance().values())
