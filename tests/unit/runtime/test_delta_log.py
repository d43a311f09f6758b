"""The fenced log: one writer, whoever held it before is out."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import ForeignCommit, LeaseLost
from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import LEASE, DeltaLog
from penstock.runtime.delta.writer import RevisionWriter, live_path

SCHEMA = pa.schema([("n", pa.int64())])
NAME = TableName("gold", "numbers")


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def append(log: DeltaLog, *values: int, **txns: int) -> int:
    return log.commit(write_arrow(rows(*values), log.path), txns, {})


def read(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    DeltaLog.create(tmp_path / "t", SCHEMA)
    return tmp_path / "t"


def test_a_new_holder_fences_the_old_one_for_good(path):
    old = DeltaLog.take(path, 1)
    append(old, 1)
    new = DeltaLog.take(path, 2)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            append(old, 2)
    append(new, 3)
    assert read(path) == [1, 3]


def test_a_lower_token_cannot_take_over(path):
    DeltaLog.take(path, 5)
    with pytest.raises(LeaseLost):
        DeltaLog.take(path, 4)


def test_the_old_holder_may_win_one_race_but_never_a_second(path):
    """The old holder commits between the new one's look and its token: both end up consistent."""
    old = DeltaLog.take(path, 1)
    new = DeltaLog(path, 2)
    append(old, 1)
    taken = DeltaLog.take(path, 2)
    assert new.version < taken.version
    with pytest.raises(LeaseLost):
        append(old, 2)
    assert read(path) == [1]


def test_many_writers_hammering_lose_no_commit(path):
    """Each thread takes over in turn; every append that reported success is in the table."""
    kept, lock = [], threading.Lock()

    def work(token: int) -> None:
        try:
            log = DeltaLog.take(path, token)
            for step in range(20):
                value = token * 1000 + step
                append(log, value)
                with lock:
                    kept.append(value)
        except LeaseLost:
            return

    threads = [threading.Thread(target=work, args=(token,)) for token in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(path) == sorted(kept)
    assert DeltaTable(str(path)).transaction_version(LEASE) == 8


def test_a_stranger_is_told_from_a_successor(path):
    log = DeltaLog.take(path, 1)
    write_deltalake(str(path), rows(7), mode="append")
    with pytest.raises(ForeignCommit):
        append(log, 8)


def test_positions_survive_reopening(path):
    log = DeltaLog.take(path, 1)
    append(log, 1, **{"kafka:x:0": 41})
    assert DeltaLog.take(path, 2).txn("kafka:x:0") == 41
    assert DeltaLog.take(path, 3).txn("kafka:x:1") is None


# --- the mirror ---------------------------------------------------------------------------------
def writer(folder: Path, token: int, *, live: bool = True) -> RevisionWriter:
    return RevisionWriter(folder, NAME, "r1", SCHEMA, token=token, live=live)


def test_live_shows_what_the_revision_holds_at_the_stable_path(tmp_path):
    table = writer(tmp_path, 1)
    table.commit(write_arrow(rows(1, 2), table.path), {"in": 1})
    table.commit(write_arrow(rows(3), table.path), {"in": 2})
    assert read(live_path(tmp_path, NAME)) == [1, 2, 3]
    files = DeltaTable(str(live_path(tmp_path, NAME))).get_add_actions()["path"].to_pylist()
    assert all(path.startswith("_revisions/r1/") for path in files)


def test_the_mirror_goes_on_after_a_crash_between_the_two_commits(tmp_path):
    table = writer(tmp_path, 1)
    table.commit(write_arrow(rows(1), table.path), {"in": 1})
    # the crash: the revision's commit is there, live's is not
    table.log.commit(write_arrow(rows(2), table.path), {"r1:in": 2}, {})
    assert read(live_path(tmp_path, NAME)) == [1]
    again = writer(tmp_path, 2)
    assert read(live_path(tmp_path, NAME)) == [1, 2]
    assert again.position("in") == 2
    assert again.catch_up_mirror() == 0


def test_a_woken_old_writer_reaches_neither_revision_nor_live(tmp_path):
    old = writer(tmp_path, 1)
    old.commit(write_arrow(rows(1), old.path), {"in": 1})
    new = writer(tmp_path, 2)
    with pytest.raises(LeaseLost):
        old.commit(write_arrow(rows(2), old.path), {"in": 2})
    with pytest.raises(LeaseLost):
        old._mirror(9, write_arrow(rows(3), old.path))
    new.commit(write_arrow(rows(4), new.path), {"in": 2})
    assert read(live_path(tmp_path, NAME)) == [1, 4]


def test_time_travel_and_change_feed_work_on_live(tmp_path):
    table = writer(tmp_path, 1)
    table.commit(write_arrow(rows(1), table.path), {"in": 1})
    version = DeltaTable(str(live_path(tmp_path, NAME))).version()
    table.commit(write_arrow(rows(2), table.path), {"in": 2})
    path = str(live_path(tmp_path, NAME))
    assert DeltaTable(path, version=version).to_pyarrow_table()["n"].to_pylist() == [1]
    feed = pa.table(DeltaTable(path).load_cdf(starting_version=version + 1).read_all())
    assert feed["n"].to_pylist() == [2]
    assert feed["_change_type"].to_pylist() == ["insert"]


def test_a_mirror_that_failed_once_is_made_up_for(tmp_path, monkeypatch):
    """A full disk hits only live's commit: the next commit, or a new follower, shows both."""
    table = writer(tmp_path, 1)
    table.commit(write_arrow(rows(1), table.path), {"in": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table.live, "commit", full)
    with pytest.raises(OSError, match="No space"):
        table.commit(write_arrow(rows(2), table.path), {"in": 2})
    monkeypatch.undo()
    table.commit(write_arrow(rows(3), table.path), {"in": 3})
    assert read(live_path(tmp_path, NAME)) == [1, 2, 3]
    writer(tmp_path, 2)
    assert read(live_path(tmp_path, NAME)) == [1, 2, 3]


def test_checkpoints_do_not_pile_up_and_readers_keep_working(path):
    from penstock.runtime.delta.upkeep import KEPT, checkpoint

    log = DeltaLog.take(path, 1)
    for value in range(5):
        append(log, value)
        assert checkpoint(path) == value + 1
    kept = list((path / "_delta_log").glob("*.checkpoint.parquet"))
    assert len(kept) == KEPT
    assert read(path) == [0, 1, 2, 3, 4]
    assert DeltaTable(str(path), version=3).to_pyarrow_table().num_rows == 2
    assert DeltaLog.take(path, 2).txn(LEASE) == 2
