"""Dedupe at its limits, and quarantine over time: the same in stream and in batch."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest

from penstock.model import Contract, Dedupe, EventTime, Range, Rows, Totals, stream, table
from penstock.model.formats import Json
from penstock.runtime.delta.store import Store
from penstock.runtime.mend.replay import expire, replay
from penstock.testing import Kit

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 2, 1, 12, tzinfo=dt.UTC)
HOUR, TICK = dt.timedelta(hours=1), dt.timedelta(microseconds=1)

ORDERS = stream(
    "bronze.orders",
    topic="orders",
    event_time=EventTime.INGEST,
    contract=Contract(
        subject="orders-value",
        format=Json(),
        schema={
            "type": "record",
            "name": "order",
            "fields": [{"name": "id", "type": "string"}, {"name": "size", "type": "long"}],
        },
        rules=[Range("size", minimum=0)],
    ),
)


@table(
    "silver.orders",
    inputs={"orders": ORDERS},
    kind=Rows(),
    dedupe=Dedupe(key=("id",), within="1 hour"),
    quarantine_for="30 days",
)
def orders(orders):
    return orders.select("id", "size")


def row(name: str, size: int = 1) -> dict:
    return {"id": name, "size": size}


def sizes(kit: Kit) -> list[int]:
    return sorted(r["size"] for r in kit.rows())


@pytest.mark.parametrize("restart", [False, True])
def test_exactly_the_horizon_is_a_duplicate_and_a_tick_more_is_not(spark, tmp_path, restart):
    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    moments = [NOON, NOON + HOUR, NOON + 2 * HOUR + TICK, NOON + 3 * HOUR + TICK]
    for number, at in enumerate(moments):
        kit.feed([row("a", number)], at=at)
        if restart:
            kit.lose_copies()
    # the second is exactly an hour after the first, the third an hour and a tick after the second
    assert sizes(kit) == [0, 2]
    assert kit.rows() == kit.batch_rows()
    assert kit.outcomes() == {"counted": 2, "duplicate": 2}
    assert not any(kit.balance().values())


def test_a_memory_whose_damage_shows_at_the_start_is_made_again(spark, tmp_path, monkeypatch):
    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    kit.feed([row("a", 1)], at=NOON)
    read, broken = Store.position, iter([True])

    def position(self: Store, source: str) -> int:
        if self._path.name == "seen.duckdb" and next(broken, False):
            raise duckdb.Error("Corrupt database file")
        return read(self, source)

    monkeypatch.setattr(Store, "position", position)
    kit.restart()
    assert not next(broken, False)
    kit.feed([row("a", 2), row("b", 3)], at=NOON + TICK)
    assert sizes(kit) == [1, 3]
    assert kit.rows() == kit.batch_rows()


def test_within_a_batch_the_first_counts_and_bad_rows_are_nobodys_first(spark, tmp_path):
    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    kit.feed([row("a", -1), row("a", 1), row("a", 2), row("b", 3)], at=NOON)
    assert sizes(kit) == [1, 3]
    assert kit.rows() == kit.batch_rows()
    assert kit.outcomes() == {"counted": 2, "duplicate": 1, "quarantined": 1}


def test_replay_brings_a_row_in_once_and_not_beside_its_copy(spark, tmp_path):
    from penstock.runtime.kinds.contracts import DedupeMapper

    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    kit.feed([row("a", -1), row("b", -2), row("b", 2)], at=NOON)
    mended = kit.follower.mapper
    assert isinstance(mended, DedupeMapper)
    assert replay(kit.follower)["replayed"] == 0, "nothing was mended"
    assert len(kit.quarantined()) == 2

    lenient = stream(
        "bronze.orders",
        topic="orders",
        event_time=EventTime.INGEST,
        contract=Contract(subject="orders-value", format=Json(), schema=ORDERS.contract.schema),
    )
    mended.stream, mended._prepared = lenient, {}
    done = replay(kit.follower)
    assert (done["replayed"], done["still_bad"]) == (2, 0)
    assert sizes(kit) == [-1, 2], "b came in by itself meanwhile"
    assert kit.quarantined() == []
    assert kit.outcomes() == {"counted": 2, "duplicate": 1}
    assert replay(kit.follower)["replayed"] == 0


def test_quarantine_keeps_bytes_for_as_long_as_it_says(spark, tmp_path):
    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    kit.feed([row("a", -1)], at=NOON)
    kit.feed([row("b", -1)], at=NOON + dt.timedelta(days=20))
    assert expire(kit.follower, NOON + dt.timedelta(days=29)) == 0
    assert expire(kit.follower, NOON + dt.timedelta(days=31)) == 1
    assert [r["offset"] for r in kit.quarantined()] == [1]
    assert kit.outcomes() == {"quarantined": 2}, "what became of a row is not forgotten"


def test_a_topic_that_turns_all_bad_raises_an_alarm(spark, tmp_path):
    kit = Kit(spark, tmp_path, orders, stream=ORDERS)
    kit.feed([row(f"x{n}", -1) for n in range(99)], at=NOON)
    assert kit.follower.status()["alarm"] == ""
    kit.feed([b"no json"], at=NOON + HOUR)
    assert "100 rows all went to quarantine" in kit.follower.status()["alarm"]
    kit.feed([row("good")], at=NOON + 2 * HOUR)
    assert kit.follower.status()["alarm"] == ""


@table(
    "silver.sizes",
    inputs={"orders": ORDERS},
    kind=Totals(by=("id",)),
    dedupe=Dedupe(key=("id", "size"), within="1 hour"),
)
def sizes_by_id(orders):
    return orders.select("id", "size")


def test_a_keyed_table_remembers_duplicates_when_its_copies_are_lost(spark, tmp_path):
    kit = Kit(spark, tmp_path, sizes_by_id, stream=ORDERS)
    for number in range(4):
        kit.feed([row("a", 5), row("a", number)], at=NOON + number * HOUR / 4)
    kit.lose_copies()
    kit.feed([row("a", 5), row("b", 1)], at=NOON + HOUR)
    assert {r["id"]: r["size"] for r in kit.rows()} == {"a": 5 + 0 + 1 + 2 + 3, "b": 1}
    assert kit.rows() == kit.batch_rows()
    assert not any(kit.balance().values())
