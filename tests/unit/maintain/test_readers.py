"""Readers of every make, with a version in hand, while files are merged and removed."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import duckdb
import pytest
from deltalake import DeltaTable

from penstock.errors import UsageError
from penstock.model.names import TableName
from penstock.runtime.delta.log_files import LogFiles, commit_file
from penstock.serve.catalog import Catalog, TableRef
from penstock.serve.snapshot import open_snapshot
from tests.unit.maintain.upkept import AT_ONCE, SILVER, Upkept

KEPT = 12  # the oldest version within retention


@pytest.fixture
def world(tmp_path) -> Upkept:
    """A table whose first versions are an hour old; ten minutes are promised."""
    made = Upkept(tmp_path)
    for number in range(20):
        made.feed(2 * number, 2 * number + 1)
    made.follow()
    now = time.time()
    for log in (made.live(), made.silver.path):
        for version in LogFiles.listed(log).commits:
            if version <= KEPT:
                os.utime(commit_file(log, version), (now - 3600,) * 2)
    return made


def maintain(world: Upkept) -> None:
    for _ in range(2):
        world.maintain(replace(AT_ONCE, retention=600, internal=600))
        world.follow()


def test_snapshots_that_are_open_stay_readable(world):
    held = DeltaTable(str(world.live()), version=KEPT)
    files = [uri.removeprefix("file://") for uri in held.file_uris()]
    maintain(world)
    assert LogFiles.listed(world.live()).start == KEPT
    wanted = list(range(2 * (KEPT - 1)))
    assert sorted(held.to_pyarrow_table()["n"].to_pylist()) == wanted
    with duckdb.connect() as own:  # whoever shares the process's may have an answer unread
        found = own.sql(f"select n from read_parquet({files}) order by n").fetchall()
    assert [n for (n,) in found] == wanted
    assert world.numbers(version=KEPT) == wanted
    feed = DeltaTable(str(world.live())).load_cdf(starting_version=KEPT + 1).read_all()
    assert feed.num_rows == 40 - len(wanted)


def test_a_version_that_is_gone_is_refused_in_words(world):
    maintain(world)
    name = TableName.parse(SILVER)
    catalog = Catalog(world.folder, [TableRef(name.layer, name.name)])
    for at in (f"version:{KEPT - 1}", "2020-01-01T00:00Z"):
        with pytest.raises(UsageError, match=f"goes back to version {KEPT} of"):
            open_snapshot(catalog, catalog.find([name.layer, f"{name.name}@{at}"]))
    ref = catalog.find([name.layer, f"{name.name}@version:{KEPT}"])
    assert open_snapshot(catalog, ref).version == KEPT


@pytest.mark.spark
def test_spark_reads_old_versions_and_changes(world, spark):
    maintain(world)
    read = spark.read.format("delta")
    path = str(world.live())
    assert read.load(path).count() == 40
    assert read.option("versionAsOf", KEPT).load(path).count() == 2 * (KEPT - 1)
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    assert changes.option("startingVersion", KEPT + 1).load(path).count() == 40 - 2 * (KEPT - 1)
