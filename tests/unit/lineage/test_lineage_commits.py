"""Reading a log backwards: which commit added a file, how far had been read, which offsets."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.lineage.commits import History, Offsets, merged


class Log:
    """A log written by hand, so that times and transactions can be anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = -1
        (path / "_delta_log").mkdir(parents=True)

    def commit(self, *actions: dict, stamp: int = 0, told: dict | None = None) -> int:
        self.version += 1
        info = {"timestamp": stamp, "operation": "WRITE", "userMetadata": json.dumps(told or {})}
        lines = [{"commitInfo": info}, *actions]
        file = self.path / "_delta_log" / f"{self.version:020d}.json"
        file.write_text("\n".join(map(json.dumps, lines)))
        return self.version


def add(name: str, written: int = 0, *, changed: bool = True) -> dict:
    return {"add": {"path": name, "modificationTime": written, "dataChange": changed}}


def txn(app: str, version: int) -> dict:
    return {"txn": {"appId": app, "version": version}}


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_the_commit_that_added_a_file_is_found_whatever_the_clock_did(log, seed):
    dice = random.Random(seed)
    now, files = 1_000_000, {}
    for number in range(300):
        now += dice.choice([10, 500, 3_000])
        if dice.random() < 0.02:
            now -= 60_000  # somebody set the clock back
        written = now - dice.choice([0, 5, 90_000])  # a history is built long before its commit
        files[f"f{number}"] = (written, log.commit(add(f"f{number}", written), stamp=now))
    for name, (written, version) in files.items():
        assert History(log.path).added_in(name, written, log.version) == version
    assert History(log.path).added_in("nobody", 0, log.version) is None


def test_few_commits_are_read_to_find_one_among_many(log):
    for number in range(2_000):
        log.commit(add(f"f{number}", number * 10_000), stamp=number * 10_000 + 5)
    history = History(log.path)
    assert history.added_in("f1234", 12_340_000, log.version) == 1234
    assert len(history._read) < 40


def test_positions_are_those_of_the_newest_commit_that_says(log):
    log.commit()
    log.commit(txn("rev:silver.a", 4))
    log.commit(txn("penstock:lease", 2))
    log.commit(txn("rev:silver.a", 9), txn("other:silver.a", 100))
    history = History(log.path)
    found = [history.position("rev", "silver.a", version) for version in range(4)]
    assert found == [-1, 4, 4, 9]
    assert history.position("rev", "silver.b", 3) == -1


def test_what_commits_took_in_is_what_lies_between_positions(log):
    for position in (3, 3, 7, 8, 20):
        log.commit(txn("rev:silver.a", position))
    history = History(log.path)
    assert history.taken_in("rev", "silver.a", [(0, 0)]) == [(0, 3)]
    assert history.taken_in("rev", "silver.a", [(1, 1)]) == []
    assert history.taken_in("rev", "silver.a", [(2, 3)]) == [(4, 8)]
    assert history.taken_in("rev", "silver.a", [(2, 2), (4, 4)]) == [(4, 7), (9, 20)]


def test_offsets_are_from_the_last_commit_before_to_the_last_within(log):
    log.commit(txn("kafka:T/x+1:0", 10))
    log.commit(txn("kafka:T/x+1:1", 5), txn("penstock:ingested", 77))
    log.commit(txn("kafka:T/x+1:0", 25))
    log.commit(txn("kafka:T/x+1:0", 30), txn("kafka:again:0", 4))
    history = History(log.path)
    assert history.offsets([(2, 3)]) == [
        Offsets("T/x+1", 0, 10, 30),
        Offsets("again", 0, None, 4),
    ]
    assert history.offsets([(1, 1)]) == [Offsets("T/x+1", 1, None, 5)]
    assert history.offsets([(0, 0), (3, 3)])[0] == Offsets("T/x+1", 0, None, 30)


def test_rows_came_with_change_files_where_there_are_some(log):
    cdc = {"cdc": {"path": "_change_data/c"}}
    log.commit(add("a"), add("moved", changed=False))
    log.commit(add("b"), {"remove": {"path": "a"}}, cdc)
    plain, rewriting = (History(log.path).commit(v) for v in (0, 1))
    assert (plain.came, plain.rewrites) == (["a"], False)
    assert (rewriting.came, rewriting.rewrites) == (["_change_data/c"], True)


def test_a_log_that_was_cleaned_ends_where_it_ends(log):
    for position in range(6):
        log.commit(add(f"f{position}"), txn("rev:silver.a", position))
    for version in range(3):
        (log.path / "_delta_log" / f"{version:020d}.json").unlink()
    history = History(log.path)
    assert history.commit(1) is None
    assert history.added_in("f1", 0, 5) is None
    assert history.added_in("f4", 0, 5) == 4
    assert history.position("rev", "silver.b", 5) == -1
    assert history.newest == 5


def test_words_of_strangers_do_no_harm(log):
    log.commit()
    file = log.path / "_delta_log" / f"{0:020d}.json"
    for text in ("not json", '["a", "list"]'):
        file.write_text(json.dumps({"commitInfo": {"userMetadata": text}}))
        assert History(log.path).commit(0).told == {}


def test_a_folder_without_a_log_has_no_versions(tmp_path):
    assert History(tmp_path / "nothing").newest == -1


@pytest.mark.parametrize("seed", range(5))
def test_merged_spans_hold_the_same_versions(seed):
    dice = random.Random(seed)
    spans = [(n, n + dice.randrange(4)) for n in (dice.randrange(60) for _ in range(15))]
    found = merged(spans)
    assert {v for a, b in found for v in range(a, b + 1)} == {
        v for a, b in spans for v in range(a, b + 1)
    }
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(found))
