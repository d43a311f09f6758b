"""Records that are marked as void: what they came to is taken back, and comes again with them."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.model import Contract, Dedupe, EventTime, Latest, Range, Rows, Totals, stream, table
from penstock.model.formats import Json
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.ingest.bronze import BronzeWriter, bronze_schema
from penstock.runtime.mend.replay import replay
from penstock.runtime.mend.void import mark
from penstock.testing import Kit
from tests.parity.law import check

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 2, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)

PAYMENTS = stream(
    "bronze.payments",
    topic="payments",
    event_time=EventTime.INGEST,
    contract=Contract(
        subject="payments-value",
        format=Json(),
        schema={
            "type": "record",
            "name": "payment",
            "fields": [{"name": "id", "type": "string"}, {"name": "size", "type": "long"}],
        },
        rules=[Range("size", minimum=0)],
    ),
)
ONCE = Dedupe(key=("id",), within="10 minutes")


def _mapped(payments):
    return payments.where("size != 7").selectExpr("id", "100 div (size - 5) as share", "size")


@table("silver.payments", inputs={"payments": PAYMENTS}, kind=Rows())
def plain(payments):
    return _mapped(payments)


@table("silver.payments", inputs={"payments": PAYMENTS}, kind=Rows(), dedupe=ONCE)
def deduplicated(payments):
    return _mapped(payments)


@table("silver.sums", inputs={"payments": PAYMENTS}, kind=Totals(by=("id",)), dedupe=ONCE)
def sums(payments):
    return _mapped(payments).select("id", "size")


@table(
    "silver.newest",
    inputs={"payments": PAYMENTS},
    kind=Latest(by=("id",), order=("at", "offset")),
)
def newest(payments):
    return payments.selectExpr("id", "size", "event_time as at", "_offset as offset")


TABLES = {"rows": plain, "deduplicated": deduplicated, "totals": sums, "latest": newest}


def pay(name: str, size: int = 1) -> dict:
    return {"id": name, "size": size}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_stream_is_batch_whatever_is_void(spark, tmp_path, name, seed):
    dice, at, sent, void = random.Random(seed), NOON, 0, set()
    kit = Kit(spark, tmp_path, TABLES[name], stream=PAYMENTS)
    for _ in range(12):
        follow = dice.random() < 0.7
        if sent and dice.random() < 0.4:
            some = dice.sample(range(sent), min(sent, 2))
            if dice.random() < 0.6:
                kit.void(some, "a test", follow=follow)
                void.update(some)
            else:
                kit.void(some, None, follow=follow)
                void.difference_update(some)
        else:
            # sizes: -1 breaks the contract, 5 the transform, 7 is filtered
            rows = [pay(dice.choice("abc"), dice.choice([-1, 1, 2, 5, 7])) for _ in range(4)]
            at += dice.choice([1, 4, 11]) * MINUTE
            kit.feed(rows, at=at, follow=follow)
            sent += len(rows)
        if dice.random() < 0.2:
            kit.restart()
        if dice.random() < 0.2:
            kit.lose_copies()
    kit.advance()
    check(kit)
    held = {r["offset"]: r["error_class"] for r in kit.quarantined()}
    assert {offset for offset, word in held.items() if word == "void"} == void
    assert kit.outcomes().get("quarantined", 0) == len(held)


def test_the_next_of_its_key_counts_when_the_first_is_void(spark, tmp_path):
    kit = Kit(spark, tmp_path, deduplicated, stream=PAYMENTS)
    kit.feed([pay("a", 1)], at=NOON)
    kit.feed([pay("a", 2)], at=NOON + MINUTE)
    assert [r["size"] for r in kit.rows()] == [1]
    assert kit.void([0], "sent by mistake") == 1
    assert [r["size"] for r in kit.rows()] == [2]
    (held,) = kit.quarantined()
    assert (held["error_class"], held["error"]) == ("void", "sent by mistake")
    assert kit.outcomes() == {"counted": 1, "quarantined": 1}
    assert kit.void([0], "another reason") == 0  # it is void already
    assert replay(kit.follower) == {"replayed": 0, "still_bad": 1, "asked": 1}
    kit.void([0], None)
    assert [r["size"] for r in kit.rows()] == [1]
    assert kit.outcomes() == {"counted": 1, "duplicate": 1}
    check(kit)


def test_bronze_keeps_every_byte(spark, tmp_path):
    kit = Kit(spark, tmp_path, plain, stream=PAYMENTS)
    kit.feed([pay("a"), pay("b")], at=NOON)
    feed = kit.feeds["bronze.payments"]
    before = feed.rows()
    kit.void([1], "why not")
    after = feed.rows().sort_by("offset")
    assert after["void"].to_pylist() == [None, "why not"]
    assert after.drop_columns("void").equals(before.sort_by("offset").drop_columns("void"))


def test_a_table_of_an_earlier_version_is_given_the_column(spark, tmp_path):
    """Bronze made before records could be void: old files have no such column."""
    old = pa.schema([field for field in bronze_schema() if field.name != "void"])
    path = tmp_path / "bronze" / "payments"
    DeltaLog.create(path, old)
    kit_rows = Kit(spark, tmp_path / "other", plain, stream=PAYMENTS)
    kit_rows.feed([pay("a"), pay("b")], at=NOON)
    rows = kit_rows.feeds["bronze.payments"].rows().drop_columns("void")
    log = DeltaLog.take(path, 1)
    log.commit(write_arrow(rows, path), {"kafka:test:0": 2}, {})
    kit = Kit(spark, tmp_path, plain, stream=PAYMENTS)
    kit.restart()  # under a higher token
    kit.advance()
    assert len(kit.rows()) == 2
    assert kit.void([0], "old") == 1
    kit.feed([pay("c")], at=NOON)
    assert {r["id"] for r in kit.rows()} == {"b", "c"}
    check(kit)
    assert "void" in DeltaTable(str(path)).to_pyarrow_table().column_names


def test_offsets_of_a_topic_that_was_made_again_are_others(spark, tmp_path):
    kit = Kit(spark, tmp_path, plain, stream=PAYMENTS)
    kit.feed([pay("a")], at=NOON)
    bronze: BronzeWriter = kit.feeds["bronze.payments"].source
    bronze.topic_id = "another"
    assert mark(bronze, {0: [(0, 0)]}, "no", {}) == {"records": 0, "marked": 0}
