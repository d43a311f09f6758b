"""Small files become few, and nobody who reads notices."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import UsageError
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import read_commit
from penstock.runtime.delta.log_files import files_at
from penstock.runtime.delta.source import new_batches
from penstock.runtime.delta.upsert import Heap
from penstock.runtime.supervise.compact import commit_merge
from penstock.runtime.upkeep import merge
from penstock.runtime.upkeep.merge import Closed, Merger, commits_in
from tests.unit.maintain.upkept import ROWS, SILVER, Pace, Upkept, rows


@pytest.fixture
def world(tmp_path) -> Upkept:
    made = Upkept(tmp_path)
    for number in range(20):
        made.feed(2 * number, 2 * number + 1)
    made.follow()
    return made


KEEP = Pace(min_age=0, share=1.0)  # merges at once, keeps everything


def test_files_are_few_and_rows_are_the_same(world):
    told = world.maintain(KEEP)[SILVER]
    assert (told.files_before, told.files_after, told.merges) == (20, 1, 1)
    assert world.numbers() == list(range(40))
    assert len(DeltaTable(str(world.live())).file_uris()) == 1  # live shows it too
    (file,) = files_at(world.silver.path, world.silver.log.version)
    assert DeltaTable(str(world.silver.path)).to_pyarrow_table()["n"].to_pylist() == list(range(40))
    assert commits_in(world.silver.path / file)[0] == (2, 2)  # version 0 made it, 1 took it
    assert sum(count for _, count in commits_in(world.silver.path / file)) == 40
    assert world.maintain(KEEP)[SILVER].merges == 0


def test_nothing_changed_for_followers_and_change_feeds(world):
    before = world.silver.log.version
    at = DeltaTable(str(world.live())).version()
    world.maintain(KEEP)
    (batch,) = new_batches(world.silver, before, 1 << 30)
    assert batch.count == 0
    assert batch.to == world.silver.log.version == before + 1
    for action in read_commit(world.live(), at + 1):
        for kind in ("add", "remove"):
            assert kind not in action or not action[kind]["dataChange"]
    feed = DeltaTable(str(world.live())).load_cdf(starting_version=at + 1)
    assert pa.table(feed.read_all()).num_rows == 0


def test_a_follower_that_is_behind_reads_the_very_commits(world):
    for number in range(40, 50):
        world.feed(number)
    world.maintain(KEEP)
    world.follow(most=3)  # in small batches: every original file is there still
    assert world.numbers("gold.words") == list(range(50))


def test_young_files_open_ones_and_buckets_are_left_alone(world, tmp_path):
    assert Merger(world.silver.path, full=1 << 20, min_age=60).groups() == []
    some = rows(1)
    for prefix in ("open", "b01-0001"):
        for _ in range(9):
            world.gold.commit(write_arrow(some, world.gold.path, prefix), {})
    merged = Merger(world.gold.path, full=1 << 20, min_age=0)
    named = [add["path"] for group in merged.groups() for unit in group for add in unit.adds]
    assert not [name for name in named if name.startswith(("open", "b01"))]


def test_a_merge_is_refused_when_a_file_went_meanwhile(world):
    merger = Merger(world.silver.path, full=1 << 20, min_age=0)
    ((note, made),) = merger.merges(1 << 30)
    path, size = made.out[3]
    gone = rows(6, 7)
    told = write_changes(Change(gone.slice(0, 0), gone), (), world.silver.path)
    world.silver.commit([removal(path, size), *told], {})
    with pytest.raises(UsageError, match="replaced meanwhile"):
        commit_merge(world.silver, note)
    assert 6 not in world.numbers()
    world.maintain(KEEP)  # the next run leaves it out
    assert world.numbers() == [n for n in range(40) if n not in (6, 7)]


def test_what_the_writer_knows_of_its_files_is_exchanged(world):
    heap = Heap(world.silver.path, world.silver.log.version, ROWS, ())
    ((note, made),) = Merger(world.silver.path, full=1 << 20, min_age=0).merges(1 << 30)
    commit_merge(world.silver, note, heap)
    assert list(heap.files) == [made.add["add"]["path"]]
    gone = rows(3)
    world.silver.commit(heap.rewrite(Change(ROWS.empty_table(), gone)), {})
    assert world.numbers() == [n for n in range(40) if n != 3]


def test_a_commit_is_never_split_between_two_files(world, monkeypatch):
    monkeypatch.setattr(merge, "MOST_FILES", 7)
    for first in range(100, 130, 3):  # commits of three files
        adds = [a for n in range(3) for a in write_arrow(rows(first + n), world.silver.path)]
        world.silver.commit(adds, {})
    for group in Merger(world.silver.path, full=1 << 20, min_age=0).groups():
        assert sum(len(unit.adds) for unit in group) <= 7
    world.maintain(KEEP)
    seen: set[int] = set()
    for file in files_at(world.silver.path, world.silver.log.version):
        versions = {version for version, _ in commits_in(world.silver.path / file)}
        assert not versions & seen
        seen |= versions


def test_only_closed_intervals_are_merged(tmp_path):
    stamped = pa.schema([("window_start", pa.timestamp("us", tz="UTC"))])
    world = Upkept(tmp_path)
    writer = world._writer("gold.timed", 1, stamped)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for minute in range(20):
        one = pa.table({"window_start": [start + dt.timedelta(minutes=minute)]}, schema=stamped)
        writer.commit(write_arrow(one, writer.path), {})
    bound = int((start + dt.timedelta(minutes=12)).timestamp() * 1e6)
    merger = Merger(writer.path, full=1 << 20, min_age=0, closed=Closed("window_start", bound))
    ((_, made),) = merger.merges(1 << 30)
    assert len(made.out) == 12
    told = json.loads(made.add["add"]["stats"])
    assert told["maxValues"]["window_start"] == "2026-01-01T00:11:00.000Z"


def test_a_file_whose_bounds_cannot_be_read_may_be_of_an_open_interval(tmp_path):
    stamped = pa.schema([("window_start", pa.timestamp("us", tz="UTC"))])
    writer = Upkept(tmp_path)._writer("gold.timed", 1, stamped)
    one = pa.table({"window_start": [dt.datetime(999, 1, 1, tzinfo=dt.UTC)]}, schema=stamped)
    for _ in range(6):
        (action,) = write_arrow(one, writer.path)
        action["add"]["stats"] = action["add"]["stats"].replace("0999-", "999-")
        writer.commit([action], {})
    merger = Merger(writer.path, full=1 << 20, min_age=0, closed=Closed("window_start", 1 << 50))
    assert list(merger.merges(1 << 30)) == []


def test_a_byte_is_written_again_only_into_something_much_bigger(world, monkeypatch):
    """A long life of random sizes: how often each byte was written stays within the bound."""
    dice = random.Random(7)
    full, written, taken = 1 << 20, 0, 0
    units: list[merge._Unit] = []
    version = 0
    for _ in range(60):  # days
        for _ in range(dice.randrange(1, 40)):
            size = dice.choice([4 << 10, 6 << 10, 20 << 10])
            units.append(merge._Unit(version, version, ({"size": size},), True))
            version, taken = version + 1, taken + size
        for group in merge._worth([u for u in units if u.size < full // 2], full):
            if any(a.last > b.first for a, b in itertools.pairwise(group)):
                continue
            size = sum(u.size for u in group)
            assert size >= 4 * max(u.size for u in group) or size >= full // 2
            written += size
            at = units.index(group[0])
            made = merge._Unit(group[0].first, group[-1].last, ({"size": size},), True)
            units[at : at + len(group)] = [made]
    assert written / taken < 5  # log4(1 MB / 4 KB) + 1
    assert len(units) < taken / (full // 2) + 3 * 5
