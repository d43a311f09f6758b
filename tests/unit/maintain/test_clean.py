"""Logs are cleaned up and files removed as far as nobody stands, and no further."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from penstock.errors import PenstockError
from penstock.runtime.delta import clean, log_files, upkeep
from penstock.runtime.delta.archive import Archive
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_changes
from penstock.runtime.delta.log_files import LogFiles, files_at
from penstock.runtime.delta.source import new_batches, rows_at
from penstock.runtime.registry import State
from penstock.runtime.upkeep import maintain, merge
from penstock.runtime.upkeep.claims import Claim, Claims
from penstock.runtime.upkeep.needs import gather
from tests.unit.maintain.doomed import STEPS
from tests.unit.maintain.upkept import AT_ONCE, GOLD, ROWS, SILVER, Upkept, rows

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def world(tmp_path) -> Upkept:
    made = Upkept(tmp_path)
    for number in range(20):
        made.feed(2 * number, 2 * number + 1)
    made.follow()
    return made


_APART = {"_delta_log", "_commits"}


def parquet(folder) -> set[str]:
    found = (p for p in folder.rglob("*.parquet") if not _APART & set(p.parts))
    return {str(p.relative_to(folder)) for p in found}


def test_what_nobody_needs_goes_and_every_reader_opens_the_rest(world):
    world.maintain()
    world.follow()  # until then gold stands before the merge, and its files stay
    told = world.maintain()[SILVER]
    assert told.commits_removed >= 1
    assert told.files_removed == 20
    assert told.bytes_freed > 0
    assert len(parquet(world.live())) == 1
    assert world.numbers() == list(range(40))
    files = DeltaTable(str(world.live())).file_uris()
    paths = [f.removeprefix("file://") for f in files]
    with duckdb.connect() as own:  # whoever shares the process's may have an answer unread
        counted = own.sql(f"select count(*) from read_parquet({paths})").fetchall()
    assert counted == [(40,)]
    for number in range(40, 45):
        world.feed(number)
    world.follow()
    assert world.numbers(GOLD) == list(range(45))
    world.maintain()
    Upkept(world.folder, token=2).maintain()
    assert world.numbers() == world.numbers(GOLD) == list(range(45))


def test_a_follower_that_is_behind_keeps_commits_and_files(world):
    for number in range(40, 60):
        world.feed(number)
    told = world.maintain()[SILVER]
    at = world.gold.position(SILVER)
    assert told.waits_for == [f"{GOLD}@r1 reads at {at}"]
    assert LogFiles.listed(world.silver.path).start <= at
    world.follow(most=3)
    assert world.numbers(GOLD) == list(range(60))
    assert world.maintain()[SILVER].waits_for == []
    assert world.numbers(GOLD) == list(range(60))


def test_who_needs_what(world):
    needs = gather(world.folder, world.revisions, [Claim("export", GOLD, 3, time.time())])
    assert [(n.who, n.version) for n in needs.of(world.silver.path)] == [
        (f"live {SILVER}", world.silver.log.version),
        (f"{GOLD}@r1 reads", world.silver.log.version),
    ]
    assert {n.who for n in needs.of(world.gold.path)} == {f"live {GOLD}", f"outcomes of {GOLD}@r1"}
    assert [(n.who, n.version) for n in needs.of(world.live(GOLD))] == [("export (claim)", 3)]


def test_a_claim_holds_a_live_log_until_it_is_over(world, tmp_path):
    claims = Claims(tmp_path)
    claims.hold("export-duckdb", SILVER, 5)
    world.maintain(claims=claims.all())
    assert LogFiles.listed(world.live()).start <= 5
    assert world.numbers(version=5) == list(range(8))  # 0 made it, 1 took it
    claims.hold("export-duckdb", SILVER, 7, days=0)
    time.sleep(0.01)
    told = world.maintain(claims=claims.all())[SILVER]
    assert told.oldest_version > 7
    claims.let_go("export-duckdb", SILVER)
    assert claims.all() == []


def test_a_claim_that_cannot_be_read_claims_everything(world, tmp_path, caplog):
    claims = Claims(tmp_path)
    claims.hold("export-duckdb", SILVER, 5)
    file = tmp_path / "claims" / f"export-duckdb.{SILVER}.json"
    for broken in ("", '{"who": "ex', "[]", '{"who": "x"}'):
        file.write_text(broken)
        (claim,) = claims.all()
        assert (claim.who, claim.table, claim.version) == ("export-duckdb", SILVER, 0)
        assert not claim.is_over
    assert str(file) in caplog.text
    world.maintain(claims=claims.all())
    assert LogFiles.listed(world.live()).start == 0
    (tmp_path / "claims" / "notes.json").write_text("")  # no claim at all
    assert len(claims.all()) == 1


def test_a_claim_that_is_let_go_while_claims_are_read_is_none(tmp_path, monkeypatch):
    claims = Claims(tmp_path)
    claims.hold("export-duckdb", SILVER, 5)
    listed = list((tmp_path / "claims").glob("*.json"))
    claims.let_go("export-duckdb", SILVER)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: listed)
    assert claims.all() == []


def test_a_held_live_table_is_mirrored_from_where_it_stood(world):
    world.silver.held = True
    for number in range(40, 50):
        world.feed(number)
    world.follow()
    world.maintain()
    assert world.numbers() == list(range(40))
    world.silver.held = False
    world.silver.catch_up_mirror()
    assert world.numbers() == list(range(50))
    world.maintain()
    assert world.numbers() == list(range(50))


def test_versions_within_retention_can_be_travelled_to(world):
    newest = DeltaTable(str(world.live())).version()
    cut = time.time()
    for log in (world.live(), world.silver.path):
        for version in LogFiles.listed(log).commits:
            age = 3600 if version < 12 else 60
            os.utime(log_files.commit_file(log, version), (cut - age, cut - age))
    told = world.maintain(replace(AT_ONCE, retention=600, internal=600))[SILVER]
    assert told.oldest_version == 11
    for version in (11, 12, 15, newest):
        assert world.numbers(version=version) == list(range(2 * (version - 1)))


def test_whoever_begins_later_begins_with_what_is_left(world):
    world.maintain()
    for number in range(40, 44):
        world.feed(number)
    gone = replace(world.revisions[1], state=State.RETIRED)
    assert gone.table == GOLD
    shutil.rmtree(world.live(GOLD))
    again = Upkept(world.folder, token=2)
    again.follow(most=10)
    assert again.numbers(GOLD) == list(range(44))


def test_a_reader_killed_half_way_through_the_beginning_goes_on(world, monkeypatch):
    monkeypatch.setattr(merge, "MOST_FILES", 5)
    world.maintain()  # four merged files, and no commit that brought them
    assert len(files_at(world.silver.path, world.silver.log.version)) == 4
    shutil.rmtree(world.live(GOLD))
    again = Upkept(world.folder, token=2)
    again.follow(most=10, batches=2)
    at = again.gold.position(SILVER)
    assert again.numbers(GOLD) == list(range(20))
    assert sorted(n for t in rows_at(again.silver, at) for n in t["n"].to_pylist()) == list(
        range(20)
    )
    again.maintain()  # it stands in the middle: the beginning must stay as it is
    third = Upkept(world.folder, token=3)
    third.follow(most=10)
    assert third.numbers(GOLD) == list(range(40))


def test_where_rows_went_the_beginning_is_what_is_left(world):
    file, add = next(iter(files_at(world.silver.path, world.silver.log.version).items()))
    gone = rows(0, 1)
    told = write_changes(Change(gone.slice(0, 0), gone), (), world.silver.path)
    world.silver.commit([removal(file, add["size"]), *told], {})
    world.follow()
    world.maintain()
    (batch,) = list(new_batches(world.silver, -1, 3))[:1]
    left = sorted(batch.change(ROWS).added["n"].to_pylist())
    assert left == world.numbers()
    assert len(left) == 38
    with pytest.raises(PenstockError, match="fell behind"):
        list(new_batches(world.silver, 4, 3))


def test_orphans_go_when_they_are_old_and_change_files_when_nobody_can_read_them(world):
    young = world.silver.path / "part-young.parquet"
    old = world.silver.path / "part-old.parquet"
    for file in (young, old):
        shutil.copy(next(world.silver.path.glob("part-*.parquet")), file)
    os.utime(old, (time.time() - 7200,) * 2)
    told = world.maintain(replace(AT_ONCE, safe_age=3600, dry_run=True))[SILVER]
    assert [os.path.basename(p) for p in told.removed] == ["part-old.parquet"]
    assert old.exists()
    world.maintain(replace(AT_ONCE, safe_age=3600))
    assert young.exists()
    assert not old.exists()
    file, add = next(iter(files_at(world.silver.path, world.silver.log.version).items()))
    gone = rows(*range(40))
    cdc = write_changes(Change(gone.slice(0, 0), gone), (), world.silver.path)
    world.silver.commit([removal(file, add["size"]), *cdc], {})
    changed = world.silver.path / cdc[0]["cdc"]["path"]
    world.maintain()
    assert changed.exists()  # gold has not read it
    world.gold.commit([], {SILVER: world.silver.log.version})
    world.feed(1)
    world.gold.commit([], {SILVER: world.silver.log.version})
    world.maintain()
    assert not changed.exists()


# --- a log that begins before what has to stay --------------------------------------------------
FEW = replace(AT_ONCE, least=100)


def from_the_beginning(world: Upkept) -> list[int]:
    """What a follower finds that begins where the log does."""
    world.silver.recent._rows.clear()
    found = [b.change(ROWS).added["n"].to_pylist() for b in new_batches(world.silver, -1, 5)]
    return sorted(n for some in found for n in some)


def begins_at(world: Upkept) -> int:
    return LogFiles.listed(world.silver.path).start


def test_few_commits_go_all_the_same_where_a_merge_left_files(world):
    world.maintain(FEW)  # merges
    world.follow()
    told = world.maintain(FEW)[SILVER]
    assert from_the_beginning(world) == list(range(40))
    assert (told.files_removed, len(parquet(world.live()))) == (20, 1)


def test_few_commits_that_only_brought_rows_are_left(world):
    told = world.maintain(replace(FEW, budget=0))[SILVER]
    assert (told.merges, told.commits_removed, told.files_removed) == (0, 0, 0)
    assert begins_at(world) == 0
    assert from_the_beginning(world) == list(range(40))


@pytest.mark.parametrize("merged", [False, True])
def test_a_checkpoint_that_is_near_is_begun_with_unless_files_wait(world, merged):
    upkeep.checkpoint(world.silver.path)
    near = world.silver.log.version
    world.feed(40)
    world.follow()
    if merged:
        world.maintain(FEW)
        world.follow()
    told = world.maintain(replace(AT_ONCE, budget=0))[SILVER]
    assert begins_at(world) == (world.silver.log.version if merged else near)
    assert from_the_beginning(world) == list(range(41))
    assert told.files_removed == (21 if merged else 0)


def test_a_log_that_somebody_else_is_busy_with_keeps_its_files(world):
    world.maintain()
    world.follow()
    with clean.only_one(world.silver.path):
        assert world.maintain()[SILVER].files_removed == 0
        assert from_the_beginning(world) == list(range(40))
    assert world.maintain()[SILVER].files_removed == 20


def test_the_change_feed_can_be_read_from_the_first_commit_there_is(world):
    gone = rows(*range(40))
    cdc = write_changes(Change(gone.slice(0, 0), gone), (), world.silver.path)
    files = files_at(world.silver.path, world.silver.log.version)
    world.silver.commit([*(removal(f, add["size"]) for f, add in files.items()), *cdc], {})
    world.follow()
    world.maintain()
    start = begins_at(world)
    assert start == world.silver.log.version
    feed = DeltaTable(str(world.silver.path)).load_cdf(starting_version=start).read_all()
    assert feed.num_rows == 40


def test_a_checkpoint_that_a_log_begins_with_outlives_upkeep(world):
    world.maintain()
    start = LogFiles.listed(world.live()).start
    for _ in range(4):
        world.feed(1)
        upkeep.checkpoint(world.live())
    assert LogFiles.listed(world.live()).start == start
    assert DeltaTable(str(world.live()), version=start).version() == start


def test_positions_nobody_asked_for_before_are_found_after_a_cleanup(world):
    world.silver.commit([], {"rare": 7})
    again = Upkept(world.folder, token=2)
    again.feed(40)
    again.follow()
    again.maintain()
    assert again.silver.position("rare") == 7


def test_the_archive_tells_what_commits_told(world):
    world.maintain()
    kept = Archive(world.gold.path)
    start = LogFiles.listed(world.gold.path).start
    assert kept.newest == start
    (taken,) = [c for v in range(start + 1) if (c := kept.commit(v)) and f"r1:{SILVER}" in c.txns]
    assert taken.told["rows_in"] == 40
    assert json.dumps(taken.txns)


def test_commits_without_a_row_do_not_pile_up(world, monkeypatch):
    monkeypatch.setattr(maintain, "_FAR_BEHIND", 20)
    for number in range(50):
        world.gold.commit([], {"clock": number})
    world.counts.commit([], {"outcomes": world.gold.log.version})
    world.maintain()
    assert len(LogFiles.listed(world.gold.path).commits) < 5
    assert Upkept(world.folder, token=2).gold.position("clock") == 49


# --- killed in between ------------------------------------------------------------------------
@pytest.mark.parametrize("step", STEPS)
def test_killed_anywhere_the_next_run_finishes(world, step):
    asked = [sys.executable, "-m", "tests.unit.maintain.doomed", step, str(world.folder)]
    assert subprocess.run(asked, check=False, cwd=PROJECT, timeout=120).returncode == -9
    again = Upkept(world.folder, token=2)
    assert again.numbers() == list(range(40))
    again.feed(40, 41)
    again.follow()
    again.maintain()
    assert again.numbers() == again.numbers(GOLD) == list(range(42))
    again.follow()
    assert again.maintain()[SILVER].merges == 0
    assert len(parquet(again.live())) <= 3
    third = Upkept(world.folder, token=3)
    third.feed(42)
    third.follow()
    assert third.numbers(GOLD) == list(range(43))
