"""When following the changes cannot be exact the table is taken whole, and the reason is said."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys

import duckdb
import pytest
from deltalake import DeltaTable
from export_world import World, bag, exported

from penstock.errors import EnvironmentProblem, UsageError
from penstock.export import run
from penstock.export.clickhouse import ClickHouse
from penstock.export.clickhouse_places import Embedded, session
from penstock.export.duckdb_file import DuckdbFile
from penstock.export.run import export_tables
from penstock.export.targets import open_target, selected, status


@pytest.fixture
def world(settings):
    return World(settings)


def export(world, *names, target="duckdb", **options):
    names = names or ("gold.sums",)
    found = export_tables(world.settings, names, open_target(world.settings, target), **options)
    return found if len(names) > 1 else found.tables[0]


def file(world):
    return world.settings.home / "export" / "duckdb" / "live.duckdb"


def agrees(world) -> bool:
    return bag(exported(file(world), "gold.sums", world.writer.schema)) == world.bag()


def taken_whole(world, reason: str) -> None:
    world.append()
    outcome = export(world)
    assert outcome.mode == "full"
    assert reason in outcome.reason
    assert agrees(world)
    world.append()
    assert export(world).mode == "incremental"


def test_a_log_that_was_cleaned_up(world):
    export(world)
    world.append()
    world.append()
    table = DeltaTable(str(world.live))
    table.create_checkpoint()
    for version in range(table.version()):
        (world.live / "_delta_log" / f"{version:020d}.json").unlink()
    taken_whole(world, "the log no longer reaches back to version")


def test_a_change_file_that_is_gone(world):
    export(world)
    world.update()
    shutil.rmtree(world.writer.path / "_change_data")
    taken_whole(world, "a file of the change feed is gone")


@pytest.mark.parametrize("sql", [
    "DELETE FROM gold.sums WHERE rowid = 3",
    "UPDATE gold.sums SET s = 'somebody was here' WHERE rowid = 3",
    "INSERT INTO gold.sums SELECT * FROM gold.sums LIMIT 1",
    "DROP TABLE gold.sums",
    "ALTER TABLE gold.sums RENAME v TO w",
])  # fmt: skip
def test_a_file_somebody_wrote_to(world, sql):
    export(world)
    file(world).chmod(0o644)
    with duckdb.connect(str(file(world))) as duck:
        duck.execute(sql)
    taken_whole(world, "the stored checksum does not match" if "TABLE" not in sql else "table")


def test_a_torn_file(world):
    export(world)
    file(world).chmod(0o644)
    os.truncate(file(world), 5000)
    world.append()
    assert export(world).mode == "full"
    assert agrees(world)


def test_a_live_table_that_was_made_anew(world):
    export(world)
    shutil.rmtree(world.live)
    again = World(world.settings, seed=9)
    taken_whole(again, "the live table was made anew")


def test_hashes_of_another_duckdb(world, monkeypatch):
    monkeypatch.setattr(run, "SCHEME", "duckdb-1.4.0")
    export(world)
    monkeypatch.undo()
    taken_whole(world, "its checksum was computed by duckdb-1.4.0")


def test_a_feed_that_does_not_tell_all(world, monkeypatch):
    """A row that came without the feed saying so: found by counting, or by comparing."""
    for small in (0, 10_000):
        monkeypatch.setattr(run, "SMALL", small)
        export(world)
        world.append(3)
        path = world.live / "_delta_log" / f"{world.version:020d}.json"
        path.write_text(path.read_text().replace('"dataChange":true', '"dataChange":false'))
        world.append(1)
        outcome = export(world)
        assert outcome.mode == "full"
        assert "version" in outcome.reason
        assert agrees(world)


def test_big_tables_are_compared_with_the_feed_and_on_demand_with_delta(world, monkeypatch):
    monkeypatch.setattr(run, "SMALL", 0)
    assert export(world).verified == "delta", "taken whole"
    world.append()
    assert export(world).verified == "feed"
    assert export(world, verify=True).verified == "delta"


def test_verify_mends_what_did_not_change(world):
    export(world)
    file(world).chmod(0o644)
    with duckdb.connect(str(file(world))) as duck:
        duck.execute("UPDATE gold.sums SET s = 'x'")
    assert export(world).mode == "unchanged", "nobody looked"
    assert export(world, verify=True).mode == "full"
    assert agrees(world)


def test_verify_reads_clickhouse_back(world):
    """The hash stored with a row does not notice that the row was changed; reading it back does."""
    export(world, target="clickhouse")
    place = Embedded(world.settings.home / "export" / "clickhouse")
    claims, engine = place.claims(), place.open()
    engine.run("ALTER TABLE gold.sums UPDATE s = 'x' WHERE 1 SETTINGS mutations_sync = 2")
    place.publish(claims)
    outcome = export(world, target="clickhouse", verify=True)
    assert (outcome.mode, outcome.reason) == (
        "full", "rows read back from ClickHouse differ from those of Delta"
    )  # fmt: skip
    assert export(world, target="clickhouse", verify=True).mode == "unchanged"


# --- others -----------------------------------------------------------------------------------
def test_two_at_once(world):
    folder = world.settings.home / "export"
    folder.mkdir()
    with (folder / ".duckdb.lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentProblem, match="pid 4711"):
            export(world, patience=0)
        assert export(world, target="parquet", patience=0).mode == "full", "another target"
    assert export(world, patience=0).mode == "full"


def test_a_blocked_table_stays_as_it_is_and_the_others_go_on(world):
    other = World(world.settings, "gold.others", seed=3)
    export(world, "gold.sums", "gold.others")
    world.append()
    other.append()
    found = export(
        world, "gold.sums", "gold.others",
        blocked=lambda table: "nulls in s" if table == "gold.sums" else None,
    )  # fmt: skip
    assert not found.done
    assert [(o.mode, o.reason) for o in found.tables] == [
        ("blocked", "nulls in s"), ("incremental", "")
    ]  # fmt: skip
    assert not agrees(world)
    assert export(world).mode == "incremental"
    assert agrees(world)


@pytest.mark.parametrize("target", ["duckdb", "clickhouse", "parquet"])
def test_a_table_that_fails_leaves_the_others(world, target):
    other = World(world.settings, "gold.others", seed=3)
    export(world, "gold.sums", "gold.others", target=target)
    world.append()
    other.append()
    for path in world.writer.path.glob("*.parquet"):
        path.rename(path.with_suffix(".away"))
    found = export(world, "gold.sums", "gold.others", target=target)
    assert [o.mode for o in found.tables][1] in ("incremental", "full")
    assert found.tables[0].mode == "failed"
    held = {h.table: h.behind for h in status(world.settings, [target])[0]}
    assert held == {"gold.sums": 1, "gold.others": 0}
    for path in world.writer.path.glob("*.away"):
        path.rename(path.with_suffix(".parquet"))
    again = export(world, "gold.sums", "gold.others", target=target, verify=True)
    assert [o.mode for o in again.tables][1] == "unchanged"
    assert again.done


def test_an_empty_table_and_one_without_data(world):
    (world.settings.warehouse / "gold" / "later").mkdir()
    assert export(world, "gold.later").mode == "no data"
    empty = World(world.settings, "gold.empty", rows=0)
    for target in ("duckdb", "clickhouse", "parquet"):
        outcome = export(world, "gold.empty", target=target)
        assert (outcome.mode, outcome.rows, outcome.checksum) == ("full", 0, "0")
    empty.append(2)
    for target in ("duckdb", "clickhouse", "parquet"):
        assert export(world, "gold.empty", target=target).rows == 2


@pytest.mark.parametrize("name", [
    "gold.nothing", "gold.sums@candidate", "gold.sums@version:1", "bronze.sums", "../etc/passwd",
    "gold.../../etc", "gold.sums; drop table x", "",
])  # fmt: skip
def test_only_live_tables_by_name(world, name):
    (world.settings.warehouse / "bronze" / "sums").mkdir(parents=True)
    with pytest.raises(UsageError):
        selected(world.settings, [name])


def test_whoever_has_the_old_file_open_goes_on(world):
    export(world)
    before = world.bag()
    script = (
        "import duckdb, sys\n"
        f"c = duckdb.connect({str(file(world))!r}, read_only=True)\n"
        "print(c.execute('select count(*) from gold.sums').fetchone()[0], flush=True)\n"
        "sys.stdin.readline()\n"
        "print(c.execute('select count(s) + count(*) - count(s) from gold.sums').fetchone()[0])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert int(reader.stdout.readline()) == sum(before.values())
        world.append(25)
        assert export(world).mode == "incremental"
        out, _ = reader.communicate("go\n")
        assert int(out) == sum(before.values()), "of the file it opened"
    assert agrees(world)


def test_readers_of_the_embedded_clickhouse_have_tables_of_their_own(world):
    export(world, target="clickhouse")
    with session(world.settings) as reader:
        before = int(str(reader.query("SELECT count() FROM gold.sums", "TSV")))
        assert not str(reader.query("SELECT * FROM gold.sums LIMIT 0", "TSVWithNames")).count(
            "_row"
        )
    counted = (
        "import sys; from penstock.settings import Settings; from pathlib import Path\n"
        "from penstock.export.clickhouse_places import session\n"
        f"home = Path({str(world.settings.home)!r})\n"
        "with session(Settings(project=home, home=home)) as s:\n"
        "    for _ in range(2):\n"
        "        print(str(s.query('SELECT count() FROM gold.sums', 'TSV')).strip(), flush=True)\n"
        "        sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", counted], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert int(reader.stdout.readline()) == before
        for _ in range(3):  # its generation is long gone by then
            world.append(9)
            assert export(world, target="clickhouse").mode == "incremental"
        out, _ = reader.communicate("\n\n")
        assert int(out) == before
    generations = list((world.settings.home / "export" / "clickhouse").glob("g*"))
    assert len(generations) == 2
    with session(world.settings) as reader:
        (told,) = str(reader.query("SELECT table_name, rows FROM penstock.exports", "CSV")).split()
    assert told == f'"gold.sums",{sum(world.bag().values())}'


def test_no_process_of_an_export_has_a_jvm():
    code = (
        "import sys, penstock.cli.export, penstock.export.run, penstock.export.targets\n"
        "import penstock.export.clickhouse, penstock.export.duckdb_file\n"
        "import penstock.export.parquet_files\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_working_copy_goes(world):
    export(world)
    (file(world).parent / ".live.duckdb.next").write_text("what a crash left")
    (file(world).parent / ".live.duckdb.next.wal").write_text("the same")
    world.append()
    assert export(world).mode == "incremental"
    assert [p.name for p in file(world).parent.iterdir()] == ["live.duckdb"]
    assert isinstance(open_target(world.settings, "duckdb"), DuckdbFile)
    assert isinstance(open_target(world.settings, "clickhouse"), ClickHouse)
