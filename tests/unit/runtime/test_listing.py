"""A list of files that goes along with a log, against the log read anew."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.listing import Listing
from penstock.runtime.delta.log import DeltaLog, read_commit
from penstock.runtime.delta.source import adds_at
from penstock.runtime.times import STAMP, moment, to_micros

SCHEMA = pa.schema([("at", STAMP)])
START = to_micros(dt.datetime(2026, 11, 1, tzinfo=dt.UTC))


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    DeltaLog.create(tmp_path / "t", SCHEMA)
    return DeltaLog.take(tmp_path / "t", 1)


def write(log: DeltaLog, *seconds: int | None) -> list[dict]:
    times = [None if s is None else moment(START + s * 1_000_000) for s in seconds]
    return write_arrow(pa.table({"at": pa.array(times, STAMP)}), log.path)


def remove(add: dict, at: int = 0) -> dict:
    return {"remove": {"path": add["path"], "deletionTimestamp": at, "dataChange": True}}


def by_log(log: DeltaLog, version: int, start: int | None, end: int | None) -> set[str]:
    found = set()
    for add in adds_at(log.path, version):
        low, high = add.get("min.at"), add.get("max.at")
        if start is not None and high is not None and to_micros(high) < start:
            continue
        if end is not None and low is not None and to_micros(low) >= end:
            continue
        found.add(add["path"])
    return found


def by_listing(listing: Listing, version: int, start: int | None, end: int | None) -> set[str]:
    return {Path(str(file)).name for file in listing.between(version, start, end)}


def test_it_goes_along_with_a_log_and_back(log):
    dice, listing, there = random.Random(7), Listing(log.path, "at"), []
    for _ in range(30):
        new = write(log, dice.randrange(100), dice.choice([None, dice.randrange(100)]))
        gone = [there.pop(dice.randrange(len(there)))] if len(there) > 3 else []
        there += [a["add"] for a in new]
        log.commit([*new, *map(remove, gone)], {}, {})
        start = dice.choice([None, START + dice.randrange(100) * 1_000_000])
        end = dice.choice([None, START + dice.randrange(100) * 1_000_000])
        version = max(1, log.version - dice.choice([0, 0, 0, 2]))
        assert by_listing(listing, version, start, end) == by_log(log, version, start, end)
    assert by_listing(listing, log.version, None, None) == {add["path"] for add in there}


def test_it_reads_the_log_once(log, monkeypatch):
    looked = []
    monkeypatch.setattr(
        "penstock.runtime.delta.listing.adds_at",
        lambda path, version: looked.append(version) or adds_at(path, version),
    )
    listing = Listing(log.path, "at")
    for second in range(5):
        version = log.commit(write(log, second), {}, {})
        assert len(listing.between(version, None, None)) == second + 1
    assert len(looked) == 1


def test_commits_that_are_gone_make_it_read_anew(log):
    listing = Listing(log.path, "at")
    version = log.commit(write(log, 0), {}, {})
    listing.between(version, None, None)
    for second in (1, 2):
        version = log.commit(write(log, second), {}, {})
    log.snapshot().create_checkpoint()
    (log.path / "_delta_log" / f"{version - 1:020d}.json").unlink()
    assert len(listing.between(version, None, None)) == 3


def test_one_that_was_not_looked_at_for_long_reads_the_log_and_not_each_commit(log, monkeypatch):
    monkeypatch.setattr("penstock.runtime.delta.listing._MOST_COMMITS", 5)
    commits = []
    monkeypatch.setattr(
        "penstock.runtime.delta.listing.read_commit",
        lambda path, version: commits.append(version) or read_commit(path, version),
    )
    listing = Listing(log.path, "at")
    listing.between(log.version, None, None)
    for behind, read in ((5, 5), (6, 0), (1, 1)):
        commits.clear()
        for second in range(behind):
            version = log.commit(write(log, second), {}, {})
        assert by_listing(listing, version, None, None) == by_log(log, version, None, None)
        assert len(commits) == read
