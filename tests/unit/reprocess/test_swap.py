"""One commit swaps a live table: readers see old or new, and the change feed just what differs."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from penstock.model import Group, Rows, table, tumbling
from penstock.runtime.delta.swap import brought_up, difference, files_at, shown, swap
from penstock.runtime.delta.upkeep import checkpoint
from penstock.testing import Kit

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
EVENTS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
INFO = {"operation": "PENSTOCK PROMOTE", "who": "somebody", "why": "a test"}


def windows(*, drop: int = -1, more: bool = False, wide: bool = False):
    @table(
        "gold.sums",
        inputs={"events": "silver.events"},
        kind=tumbling("5 seconds", on="t", lateness="2 seconds"),
        keys=("k", "window_start"),
    )
    def sums(events):
        kept = events.where(F.col("v") != drop)
        total = F.sum("v") if wide else F.sum("v").cast("int")
        out = kept.groupBy("k", "window_start", "window_end").agg(
            total.alias("total"), F.count(F.lit(1)).alias("rows")
        )
        return out.withColumn("most", F.col("total") * 2) if more else out

    return sums


def events(dice: random.Random, start: int, count: int) -> list[dict]:
    return [
        {
            "k": dice.choice("abc"),
            "v": dice.randrange(5),
            "t": START + dt.timedelta(seconds=start + n / 10 - (20 if dice.random() < 0.05 else 0)),
        }
        for n in range(count)
    ]


class Swapped:
    """Two revisions of a table and the live log that shows one of them."""

    def __init__(self, spark, folder, old, new, *, build=True) -> None:
        self.dice = random.Random(7)
        self.at = 0
        self.kits = [Kit(spark, folder, old, EVENTS)]
        self.feed(300)
        self.kits.append(self.kits[0].candidate(new, build=build))
        self.scratch = folder / "run"
        self.live = folder / "gold" / "sums"

    def feed(self, count: int) -> None:
        rows = events(self.dice, self.at, count)
        self.at += count // 10
        self.kits[0].feed(rows)
        for kit in self.kits[1:]:
            kit.advance()

    def promote(self, to: int, *, meanwhile: int = 0) -> int:
        """``meanwhile``: rows that come between computing the difference and the swap."""
        new, old = (self.kits[n].follower.writer for n in (to, 1 - to))
        versions = old.log.version, new.log.version
        known = difference(old, versions[0], new, versions[1], self.scratch)
        if meanwhile:
            self.feed(meanwhile)
        net = brought_up(known, old, versions[0], new, versions[1])
        version = swap(old.live, new, net, new_keys(self.kits[to]), INFO)
        new.show(old.hide())
        return version

    def rows(self, version=None) -> list[tuple]:
        return bag(DeltaTable(str(self.live), version=version).to_pyarrow_table())

    def of(self, which: int) -> list[tuple]:
        return bag(self.kits[which].follower.writer.log.snapshot().to_pyarrow_table())


def new_keys(kit: Kit) -> tuple[str, ...]:
    return kit.table.keys


def bag(rows: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def applied(feed: pa.Table, names: list[str]) -> list[tuple]:
    """What somebody has who applies a change feed from the start, as a bag."""
    held: Counter = Counter()
    order = sorted(feed.to_pylist(), key=lambda row: row["_commit_version"])
    for row in order:
        sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        held[tuple(row[name] for name in names)] += sign
    assert all(count >= 0 for count in held.values())
    return sorted(held.elements())


@pytest.fixture
def swapped(spark, tmp_path):
    return Swapped(spark, tmp_path, windows(), windows(drop=3))


def test_promote_and_back_with_traffic_between(swapped):
    assert swapped.rows() == swapped.of(0)
    version = swapped.promote(1, meanwhile=120)
    assert swapped.rows() == swapped.of(1) != swapped.of(0)
    assert swapped.rows(version - 1) == swapped.of(0), "the version before is the old one, whole"
    swapped.feed(100)  # mirrored from the new one now
    assert swapped.rows() == swapped.of(1)
    swapped.promote(0, meanwhile=60)
    assert swapped.rows() == swapped.of(0), "nothing that came meanwhile is lost"
    swapped.feed(50)
    assert swapped.rows() == swapped.of(0)
    swapped.promote(1)
    assert swapped.rows() == swapped.of(1)
    whole = pa.table(DeltaTable(str(swapped.live)).load_cdf(0).read_all())
    assert applied(whole, swapped.kits[1].follower.writer.schema.names) == swapped.rows()


def test_change_feed_holds_exactly_what_differs(swapped):
    old, new = Counter(swapped.of(0)), Counter(swapped.of(1))
    version = swapped.promote(1)
    feed = pa.table(DeltaTable(str(swapped.live)).load_cdf(version, version).read_all())
    names = swapped.kits[1].follower.writer.schema.names
    came = Counter(
        tuple(r[n] for n in names)
        for r in feed.to_pylist()
        if r["_change_type"] in ("insert", "update_postimage")
    )
    went = Counter(
        tuple(r[n] for n in names)
        for r in feed.to_pylist()
        if r["_change_type"] in ("delete", "update_preimage")
    )
    assert came == new - old
    assert went == old - new
    assert came, "or nothing is shown"
    kinds = Counter(feed["_change_type"].to_pylist())
    assert kinds["update_preimage"] == kinds["update_postimage"] > 0
    swapped.promote(0)
    swapped.feed(40)
    swapped.promote(1)
    whole = pa.table(DeltaTable(str(swapped.live)).load_cdf(0).read_all())
    assert applied(whole, names) == swapped.rows()


def test_a_spark_stream_goes_through_swaps_without_a_restart(spark, swapped, tmp_path):
    taken: list[dict] = []

    def take(frame, number):
        taken.extend(frame.toArrow().to_pylist())

    stream = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .load(str(swapped.live))
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        for to in (1, 0, 1):
            swapped.feed(40)
            stream.processAllAvailable()
            swapped.promote(to)
            stream.processAllAvailable()
        assert stream.isActive
    finally:
        stream.stop()
    names = swapped.kits[1].follower.writer.schema.names
    got = pa.Table.from_pylist(
        [{**row, "_commit_version": row["_commit_version"]} for row in taken]
    )
    assert applied(got, names) == swapped.rows()


def test_every_reader_sees_the_new_table(spark, swapped):
    swapped.promote(1)
    wanted = swapped.of(1)
    by_spark = spark.read.format("delta").load(str(swapped.live)).toArrow()
    assert bag(by_spark) == wanted
    listed = DeltaTable(str(swapped.live)).file_uris()
    with duckdb.connect() as own:  # whoever shares the process's may have an answer unread
        rows = own.sql(f"from read_parquet({[f.removeprefix('file://') for f in listed]})")
        assert len(rows.fetchall()) == len(wanted)


def test_equal_revisions_change_nothing_for_anybody(spark, tmp_path):
    same = Swapped(spark, tmp_path, windows(), windows(drop=99))
    version = same.promote(1)
    assert same.rows() == same.of(0) == same.of(1)
    actions = [
        json.loads(line)
        for line in (same.live / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    ]
    assert not any("cdc" in action for action in actions)
    assert not any(action["add"]["dataChange"] for action in actions if "add" in action)
    feed = pa.table(DeltaTable(str(same.live)).load_cdf(version, version).read_all())
    assert feed.num_rows == 0


@pytest.mark.parametrize("new", [{"more": True}, {"wide": True}], ids=["added", "widened"])
def test_schema_changes_in_the_same_commit(spark, tmp_path, new):
    changed = Swapped(spark, tmp_path, windows(), windows(drop=3, **new))
    version = changed.promote(1)
    assert changed.rows() == changed.of(1)
    old, now = (DeltaTable(str(changed.live), version=v).schema().to_json()
                for v in (version - 1, version))  # fmt: skip
    assert old != now
    assert bag(spark.read.format("delta").load(str(changed.live)).toArrow()) == changed.of(1)
    back = changed.promote(0)
    assert DeltaTable(str(changed.live), version=back).schema().to_json() == old
    assert changed.rows() == changed.of(0)


def test_files_are_found_with_and_without_a_checkpoint(swapped):
    writer = swapped.kits[0].follower.writer
    plain = files_at(writer.path, writer.log.version)
    checkpoint(writer.path)
    kept = files_at(writer.path, writer.log.version)
    listed = {uri.rpartition("/")[2] for uri in writer.log.snapshot().file_uris()}
    assert plain.keys() == kept.keys() == listed
    for path, add in plain.items():
        assert json.loads(kept[path]["stats"]) == json.loads(add["stats"])


def test_the_log_itself_says_what_it_shows(swapped):
    names = [kit.revision for kit in swapped.kits]
    assert shown(DeltaTable(str(swapped.live)), names) is None
    swapped.promote(1)
    assert shown(DeltaTable(str(swapped.live)), names) == names[1]
    swapped.promote(0)
    assert shown(DeltaTable(str(swapped.live)), names) == names[0]


def test_old_versions_stay_readable(swapped):
    before, at = swapped.rows(), DeltaTable(str(swapped.live)).version()
    swapped.promote(1)
    swapped.feed(50)
    assert swapped.rows(at) == before


def test_held_live_stands_still_and_catches_up(swapped):
    writer = swapped.kits[0].follower.writer
    writer.held = True
    before = swapped.rows()
    swapped.feed(200)
    assert swapped.rows() == before != swapped.of(0)
    writer.held = False
    writer.catch_up_mirror()
    assert swapped.rows() == swapped.of(0)


@pytest.mark.parametrize("kind", ["rows", "group"])
def test_other_kinds(spark, tmp_path, kind):
    def made(factor: int):
        if kind == "rows":

            @table("gold.sums", inputs={"events": "silver.events"}, kind=Rows())
            def sums(events):
                return events.select("k", (F.col("v") * F.when(F.col("k") == "a", factor)
                                           .otherwise(1)).alias("w"), "t")  # fmt: skip
        else:

            @table("gold.sums", inputs={"events": "silver.events"}, kind=Group(by=("k",)),
                   keys=("k",))  # fmt: skip
            def sums(events):
                return events.groupBy("k").agg(F.max(F.col("v") * factor).alias("w"))

        return sums

    both = Swapped(spark, tmp_path, made(1), made(2), build=kind == "group")
    both.promote(1, meanwhile=80)
    both.feed(30)
    assert both.rows() == both.of(1) != both.of(0)
    both.promote(0, meanwhile=50)
    assert both.rows() == both.of(0)
    whole = pa.table(DeltaTable(str(both.live)).load_cdf(0).read_all())
    assert applied(whole, both.kits[0].follower.writer.schema.names) == both.rows()
    shutil.rmtree(both.scratch, ignore_errors=True)
