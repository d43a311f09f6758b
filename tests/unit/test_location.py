"""A place for tables behaves the same on a disk and in an object store."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import AlreadyExistsError

from penstock import bucket as buckets
from penstock.errors import EnvironmentProblem, LeaseLost
from penstock.location import (
    Location,
    Remote,
    below,
    bytes_below,
    copies,
    copy_of,
    creator,
    dataset,
    delta_table,
    lock_file,
    near,
    present,
    readable,
    remove_files,
    remove_tree,
    scan,
    walk,
    write_whole,
    written,
)
from penstock.runtime.delta.clean import clean, only_one
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import LEASE, DeltaLog, read_commit
from penstock.runtime.delta.log_files import LogFiles, files_at
from penstock.runtime.delta.upkeep import checkpoint
from penstock.runtime.upkeep.vacuum import Kept, vacuum

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def append(log: DeltaLog, *values: int) -> int:
    return log.commit(write_arrow(rows(*values), log.path), {}, {})


def read(table: Location, version: int | None = None) -> list[int]:
    return sorted(delta_table(table, version).to_pyarrow_table()["n"].to_pylist())


@pytest.fixture
def table(place: Location) -> Location:
    DeltaLog.create(place / "gold" / "numbers", SCHEMA)
    return place / "gold" / "numbers"


# --- files --------------------------------------------------------------------------------------
def test_names_and_what_lies_below(place: Location):
    file = place / "gold" / "t" / "part-1.parquet"
    assert (file.name, file.parent.name) == ("part-1.parquet", "t")
    assert below(file, place) == "gold/t/part-1.parquet"
    assert str(place / "gold") == f"{place}/gold"
    assert place / "a" == place / "a"
    assert len({place / "a", place / "a", place / "b"}) == 2
    with pytest.raises(ValueError, match="not below"):
        below(place / "gold", place / "gold" / "t")


def test_a_file_is_there_only_after_it_was_written(place: Location):
    file = place / "notes" / "one.json"
    assert not file.exists()
    assert not (place / "notes").exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, b"1")
    write_whole(file, b"22")
    assert file.exists()
    assert (place / "notes").is_dir()
    assert (file.read_text(), file.stat().st_size) == ("22", 2)
    assert readable(file) is not None
    file.unlink()
    file.unlink(missing_ok=True)
    assert not file.exists()


def test_reading_what_is_not_there_says_so(place: Location):
    with pytest.raises(FileNotFoundError):
        (place / "nothing.json").read_text()


def test_scanning_tells_files_from_folders(place: Location):
    (place / "t" / "inner").mkdir(parents=True, exist_ok=True)
    write_whole(place / "t" / "a.json", b"123")
    write_whole(place / "t" / "inner" / "b.json", b"12345")
    with scan(place / "t") as entries:
        found = {e.name: (e.is_dir(), 0 if e.is_dir() else e.stat().st_size) for e in entries}
    assert found == {"a.json": (False, 3), "inner": (True, 0)}
    assert [f.name for f in (place / "t").glob("*.json")] == ["a.json"]
    assert bytes_below(place / "t") == 8
    remove_tree(place / "t")
    assert bytes_below(place) == 0


def test_a_folder_is_no_prefix_of_another_with_a_longer_name(place: Location):
    for name in ("t", "t2"):
        (place / name).mkdir(parents=True, exist_ok=True)
        write_whole(place / name / "a.json", b"1")
    remove_tree(place / "t")
    assert (place / "t2" / "a.json").exists()


# --- create if absent ---------------------------------------------------------------------------
def test_of_many_who_create_a_file_at_once_exactly_one_does(place: Location):
    (place / "_delta_log").mkdir(parents=True, exist_ok=True)
    many, rounds = 6, 20
    gate = threading.Barrier(many)

    def race(me: int) -> set[int]:
        create, won = creator(place), set()
        for number in range(rounds):
            gate.wait()
            try:
                create(f"_delta_log/{number}.json", f"{me}".encode() * 500)
                won.add(number)
            except AlreadyExistsError:
                pass
        return won

    with ThreadPoolExecutor(many) as pool:
        won = list(pool.map(race, range(many)))
    assert sorted(n for mine in won for n in mine) == list(range(rounds))
    for me, mine in enumerate(won):
        for number in mine:
            assert (place / "_delta_log" / f"{number}.json").read_text() == str(me) * 500


@pytest.mark.parametrize("place", ["s3"], indirect=True)  # a disk answers
def test_a_writer_whose_answer_got_lost_finds_its_own_commit(place: Location, monkeypatch):
    """The store has it, the client was told of an error: it must not take itself for a stranger."""
    import obstore

    put = obstore.put

    def deaf(*args, **kwargs):
        put(*args, **kwargs)
        raise OSError("the answer got lost")

    monkeypatch.setattr(obstore, "put", deaf)
    creator(place)("a.json", b"mine")
    assert (place / "a.json").read_text() == "mine"
    with pytest.raises(AlreadyExistsError):
        creator(place)("a.json", b"another's")
    monkeypatch.setattr(obstore, "put", lambda *a, **k: (_ for _ in ()).throw(OSError("down")))
    with pytest.raises(OSError, match="down"):
        creator(place)("b.json", b"mine")


@pytest.mark.parametrize("place", ["s3"], indirect=True)  # a disk keeps its promise
def test_a_store_is_tried_before_anything_is_written(place: Location, monkeypatch):
    place.bucket.require_creating()
    assert list(walk(place)) == []
    import obstore

    put = obstore.put

    def careless(store, key, body, mode=""):
        put(store, key, body)  # without the condition

    monkeypatch.setattr(obstore, "put", careless)
    with pytest.raises(EnvironmentProblem, match="created twice"):
        place.bucket.require_creating()
    monkeypatch.undo()
    wrong = {**place.bucket.options, "AWS_SECRET_ACCESS_KEY": "wrong"}
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        replace(place.bucket, options=wrong).require_creating()


def test_lineage_names_a_table_by_its_store(place: Location):
    namespace, name = dataset(place / "gold" / "t")
    if isinstance(place, Remote):
        assert (namespace, name) == ("s3://warehouse", f"{place.bucket.uri[15:]}/gold/t")
    else:
        assert (namespace, name) == ("file", str(place / "gold" / "t"))


@pytest.mark.parametrize("place", ["s3"], indirect=True)  # a disk answers
def test_a_commit_that_was_in_doubt_is_not_taken_for_a_strangers(table: Location, monkeypatch):
    """The store was gone for long: whoever wrote begins again, with what is there."""
    log, create = DeltaLog.take(table, 1), buckets.Bucket.create

    def cut_off(self, key: str, body: bytes) -> None:
        create(self, key, body)
        raise OSError("no route to host")

    with monkeypatch.context() as patch:
        patch.setattr(buckets.Bucket, "create", cut_off)
        with pytest.raises(OSError, match="no route"):
            append(log, 1)
    with pytest.raises(LeaseLost, match="taken for lost"):
        append(log, 1)
    append(DeltaLog.take(table, 2), 2)
    assert read(table) == [1, 2]


# --- copies -------------------------------------------------------------------------------------
def test_data_files_can_be_read_from_this_disk(place: Location):
    (place / "t").mkdir(parents=True, exist_ok=True)
    for number in range(3):
        with written(place / "t" / f"part-{number}.parquet") as file:
            pq.write_table(rows(number), file)
    if isinstance(place, Remote):
        remove_tree_of_copies(place)
    paths = copies(place / "t" / f"part-{number}.parquet" for number in range(3))
    assert [pq.read_table(path)["n"][0].as_py() for path in paths] == [0, 1, 2]
    assert str(copy_of(place / "t" / "part-1.parquet")) == paths[1]
    assert copies([]) == []


def remove_tree_of_copies(place: Remote) -> None:
    remove_tree(place.bucket.copies)


def test_a_file_that_is_gone_has_no_copy(place: Location):
    (place / "t").mkdir(parents=True, exist_ok=True)
    with written(place / "t" / "part-0.parquet") as file:
        pq.write_table(rows(1), file)
    remove_files([place / "t" / "part-0.parquet", place / "t" / "never.parquet"])
    asked = str(near(place / "t") / "part-0.parquet")
    assert present(place / "t", [asked]) == [asked]
    assert not os.path.exists(asked)


def test_copies_nobody_used_lately_go_when_there_are_too_many(tmp_path: Path):
    for number in range(4):
        (tmp_path / "t").mkdir(exist_ok=True)
        (tmp_path / "t" / f"{number}").write_bytes(b"x" * 100)
        os.utime(tmp_path / "t" / f"{number}", (0, time.time() - 1000 * (4 - number)))
    assert buckets.drop_unused(tmp_path, 250, in_use=1500) == 2
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == ["2", "3"]
    assert buckets.drop_unused(tmp_path, 0, in_use=2500) == 0, "those are in use"


# --- Delta --------------------------------------------------------------------------------------
def test_a_table_is_made_once_and_read_by_any_delta_reader(table: Location):
    DeltaLog.create(table, SCHEMA)  # again: nothing happens
    log = DeltaLog.take(table, 1)
    append(log, 1, 2)
    append(log, 3)
    assert read(table) == [1, 2, 3]
    assert read(table, 2) == [1, 2]
    assert set(files_at(table, log.version)) == set(
        pa.table(delta_table(table).get_add_actions())["path"].to_pylist()
    )
    assert LogFiles.listed(table).newest == log.version == 3


def test_a_new_holder_fences_the_old_one(table: Location):
    old = DeltaLog.take(table, 1)
    append(old, 1)
    new = DeltaLog.take(table, 2)
    with pytest.raises(LeaseLost):
        append(old, 2)
    append(new, 3)
    assert read(table) == [1, 3]
    assert delta_table(table).transaction_version(LEASE) == 2


def test_a_log_is_checkpointed_cleaned_up_and_vacuumed(table: Location):
    log = DeltaLog.take(table, 1)
    for number in range(12):
        append(log, number)
    told = clean(table, 8, archive=True)
    assert (told.start, told.commits) == (8, 8)
    assert told.bytes > 0
    assert LogFiles.listed(table).start == 8
    with pytest.raises(FileNotFoundError):
        read_commit(table, 3)
    assert read(table) == list(range(12))
    checkpoint(table)
    assert LogFiles.listed(table).checkpoints[-1] == log.version
    (orphan,) = write_arrow(rows(99), table)
    gone = vacuum([table], [Kept(table, 8)], safe_age=-2.0, dry_run=True)
    assert [file.name for file in gone.files] == [orphan["add"]["path"]]
    assert gone.bytes == orphan["add"]["size"]
    vacuum([table], [Kept(table, 8)], safe_age=-2.0)
    assert not gone.files[0].exists()
    assert read(table) == list(range(12))


@pytest.mark.parametrize(
    "place", ["s3"], indirect=True
)  # on a disk one goes after the other: tests/unit/maintain
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_cleanup_that_was_cut_short_leaves_a_log_that_begins_later(
    table: Location, monkeypatch, step: int, first: int
):
    """In an object store many go at once, in no order: here only every second one did."""
    log, calls = DeltaLog.take(table, 1), iter(range(9))
    for number in range(12):
        append(log, number)
    clean(table, 3, archive=True)

    def torn(files: list[Location]) -> None:
        if next(calls) < step:
            remove_files(files)
            return
        remove_files(files[first::2])
        raise OSError("the machine is gone")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.runtime.delta.clean.remove_files", torn)
        with suppress(OSError):
            clean(table, 9, archive=True)
    start = LogFiles.listed(table).start
    for version in range(start, log.version + 1):
        assert len(read(table, version)) == max(0, version - 1)
    assert clean(table, 9, archive=True).start == LogFiles.listed(table).start == 9
    assert read(table) == list(range(12))


def test_only_one_removes_files_of_a_table(table: Location):
    with only_one(table) as first, only_one(table) as second:
        assert (first, second) == (True, False)
    assert lock_file(table).exists()


def test_a_commit_of_a_table_names_its_files_by_relative_path(table: Location):
    log = DeltaLog.take(table, 1)
    (add,) = [a["add"] for a in read_commit(table, append(log, 7)) if "add" in a]
    assert "/" not in add["path"]
    assert json.loads(add["stats"])["maxValues"] == {"n": 7}
    assert copy_of(table / add["path"]).stat().st_size == add["size"]
