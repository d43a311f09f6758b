"""Whatever happens to a live table: exported by what changed == exported whole == Delta."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from export_world import SCHEMAS, World, bag, exported

from penstock.export.claim import Outcome
from penstock.export.clickhouse import ClickHouse
from penstock.export.clickhouse_places import Embedded
from penstock.export.duckdb_file import DuckdbFile
from penstock.export.parquet_files import ParquetFiles
from penstock.export.run import export_tables

HAPPENS = ("append", "update", "compact", "promote", "rollback", "schema", "nothing")
KINDS = {"keyed": True, "keyless": False}


def live_one_step(world: World, dice: random.Random) -> str:
    what = dice.choice(HAPPENS)
    if what == "schema":
        world.promote(dice.choice(list(SCHEMAS)))
    elif what != "nothing":
        getattr(world, what)()
    return what


class Duckdb:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def target(self):
        return DuckdbFile(self.folder)

    def bag(self, world: World) -> Counter[str]:
        return bag(exported(self.folder / "live.duckdb", "gold.sums", world.writer.schema))


class Parquet(Duckdb):
    def target(self):
        return ParquetFiles(self.folder)

    def bag(self, world: World) -> Counter[str]:
        files = sorted((self.folder / "gold.sums" / "latest").glob("part-*.parquet"))
        rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        return bag(rows.cast(world.writer.schema))


def once(world: World, target, **options) -> Outcome:
    (outcome,) = export_tables(world.settings, ["gold.sums"], target, **options).tables
    assert outcome.mode != "failed", outcome.reason
    return outcome


@pytest.mark.parametrize("keyed", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_duckdb(settings, seed, keyed):
    world, dice = World(settings, keyed=keyed, seed=seed), random.Random(seed)
    by_feed, whole = Duckdb(settings.home / "a"), Duckdb(settings.home / "b")
    modes: Counter[str] = Counter()
    for _ in range(16):
        what = live_one_step(world, dice)
        if dice.random() < 0.3:
            continue  # several commits in one export
        outcome = once(world, by_feed.target())
        full = once(world, whole.target(), full=True)
        assert by_feed.bag(world) == whole.bag(world) == world.bag(), what
        assert (outcome.rows, outcome.checksum) == (full.rows, full.checksum)
        assert outcome.rows == sum(world.bag().values())
        modes[outcome.mode] += 1
        if outcome.mode == "full":
            assert outcome.reason in ALLOWED or "changed from" in outcome.reason
    assert modes["incremental"] > modes["full"] > 0


ALLOWED = ("no earlier export of it is there", "columns came in another order")


@pytest.mark.parametrize("keyed", KINDS.values(), ids=KINDS)
def test_clickhouse(settings, keyed):
    """``verify`` reads every row back; the checksum is that of the DuckDB export."""
    world, dice = World(settings, keyed=keyed, seed=5), random.Random(5)
    duckdb = Duckdb(settings.home / "a")
    modes: Counter[str] = Counter()
    for _ in range(16):
        what = live_one_step(world, dice)
        if dice.random() < 0.3:
            continue
        outcome = once(world, ClickHouse(Embedded(settings.home / "ch")), verify=True)
        same = once(world, duckdb.target(), full=True)
        assert (outcome.rows, outcome.checksum) == (same.rows, same.checksum), what
        modes[outcome.mode] += 1
        assert outcome.reason in ("", "no earlier export of it is there", "its columns changed")
    assert modes["incremental"]
    assert modes["full"]


def test_parquet(settings):
    world, dice = World(settings, seed=2), random.Random(2)
    files = Parquet(settings.home / "a")
    for _ in range(12):
        live_one_step(world, dice)
        once(world, files.target())
        assert files.bag(world) == world.bag()


def test_what_a_swap_changed_is_all_that_is_written(settings):
    world = World(settings, keyed=True, rows=2000)
    duckdb, clickhouse = Duckdb(settings.home / "a"), settings.home / "ch"
    for target in (duckdb.target(), ClickHouse(Embedded(clickhouse))):
        once(world, target)
    before = world.bag()
    world.promote(alter=0.01)
    after = world.bag()
    differ = sum(((after - before) + (before - after)).values())
    assert 0 < differ < 100
    for target in (duckdb.target(), ClickHouse(Embedded(clickhouse))):
        outcome = once(world, target)
        assert (outcome.mode, outcome.rows_written) == ("incremental", differ)
        assert outcome.revision == "r2"
