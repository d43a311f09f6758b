"""Many rows are judged once and then transformed, few in one job: nobody can tell which."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from penstock.model import (
    Contract,
    Matches,
    PlausibleTime,
    Range,
    Rows,
    stream,
    table,
)
from penstock.model.formats import Json
from penstock.model.names import TableName
from penstock.runtime.kinds import contracts
from penstock.testing import Kit
from tests.oracles import samples
from tests.oracles.wire import debezium_bytes

pytestmark = pytest.mark.spark

TAKEN_IN = samples.START + dt.timedelta(minutes=10)
NOON = dt.datetime(2026, 2, 1, 12, tzinfo=dt.UTC)
FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "size", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {
        "name": "price",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    },
]
RULES = [
    Range("size", minimum=0),
    Matches("id", "[a-z]{1,3}"),
    PlausibleTime(past="1 hour", future="1 minute"),
]


def streams(name, **more):
    return stream(
        f"bronze.{name}",
        topic=name,
        event_time="at",
        contract=Contract(
            subject=f"{name}-value",
            schema={"type": "record", "name": "sent", "fields": FIELDS},
            rules=RULES,
            **more,
        ),
    )


AVRO, JSON = streams("framed"), streams("plain", format=Json())


def per_piece(rows):
    """Filters, makes two rows of one, and breaks where the size is 7."""
    worth = F.col("price") / (F.col("size") - 7)
    pairs = rows.where("size > 1").withColumn("n", F.explode(F.array(F.lit(1), F.lit(2))))
    return pairs.select("id", "size", "n", worth.cast("decimal(18,4)").alias("worth"), "at")


TABLES = {
    one.topic: (
        table(f"silver.{one.topic}", inputs={"rows": one}, kind=Rows())(per_piece),
        one,
    )
    for one in (AVRO, JSON)
}


def sent(dice: random.Random) -> dict | bytes | None:
    kind = dice.randrange(8)
    if kind < 2:
        return (None, b"\x00nobody wrote this")[kind]
    late = dice.choice((0, 3599_999_999, 3600_000_000, 3600_000_001, -60_000_000, -60_000_001))
    return {
        "id": dice.choice(("a", "abc", "abcd", "a\n")),
        "size": dice.choice((-1, 0, 1, 2, 7, 9)),
        "at": NOON - dt.timedelta(microseconds=late),
        "price": Decimal(dice.randrange(10**6)) / 100,
    }


def told(spark, folder, name, many, monkeypatch):
    monkeypatch.setattr(contracts, "MANY_ROWS", many)
    definition, source = TABLES[name]
    dice = random.Random(5)
    kit = Kit(spark, folder, definition, stream=source)
    for _ in range(3):
        kit.feed([sent(dice) for _ in range(40)], at=NOON)
    kit.void([3, 50], "said so")
    assert kit.rows() == kit.batch_rows()
    assert not any(kit.balance().values())
    held = sorted(kit.quarantined(), key=lambda r: r["row_id"])
    return kit.rows(), held, kit.outcomes()


@pytest.mark.parametrize("name", TABLES)
def test_both_ways_come_to_the_same(spark, tmp_path, monkeypatch, name):
    few = told(spark, tmp_path / "few", name, 10**9, monkeypatch)
    many = told(spark, tmp_path / "many", name, 1, monkeypatch)
    assert many == few
    classes = {row["error_class"] for row in few[1]}
    assert {"void", "contract", "transform_error", "null_value"} <= classes
    assert classes & {"undecodable", "unknown_schema"}
    broken = {row["error"] for row in few[1] if row["error_class"] == "contract"}
    assert broken == {"range:size", "matches:id", "plausible_time"}


def test_tombstones_are_no_rows_but_can_be_void(spark, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(contracts, "MANY_ROWS", 1)
    users = jobs.tables[TableName.parse("silver.users")]
    change = samples.user_changes(random.Random(1), 1)[0] | {"_op": "d"}
    kit = Kit(spark, tmp_path, users, stream=jobs.streams[TableName.parse("bronze.users")])
    kit.feed([debezium_bytes(change), None], at=TAKEN_IN)
    assert (kit.rows(), kit.quarantined()) == ([], [])
    kit.void([1], "said so")
    (held,) = kit.quarantined()
    assert (held["offset"], held["error_class"]) == (1, "void")
