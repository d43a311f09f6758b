"""The log as a look-up holds it: read once, then followed; read anew when it must be."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from live_tables import STATS, LiveTable, removal, stats

from penstock.errors import QueryRefused
from penstock.serve import live_log
from penstock.serve.asked import Ask
from penstock.serve.live_log import LiveFile, LiveLog
from penstock.serve.lookup import Reader
from penstock.serve.snapshot import Column
from penstock.settings import Settings


@pytest.fixture
def log(settings: Settings, gold: LiveTable) -> LiveLog:
    reader = Reader(settings)
    return LiveLog("gold.stats", gold.folder, reader._checkpoint)


def truth(gold: LiveTable, version: int | None = None) -> set[str]:
    table = DeltaTable(str(gold.folder), version=version)
    return set(table.get_add_actions(flatten=True).column("path").to_pylist())


def cleaned_before(gold: LiveTable, version: int) -> None:
    for commit in (gold.folder / "_delta_log").glob("*.json"):
        if int(commit.stem) < version:
            commit.unlink()


def test_it_agrees_with_delta_at_every_version(gold: LiveTable, log: LiveLog) -> None:
    for number in range(15):
        add = gold.append(stats((f"T{number}", number, 1.0)))
        if number % 3 == 0:
            gold.commit(removal(add))
        if number == 7:
            DeltaTable(str(gold.folder)).create_checkpoint()
        state = log.newest()
        assert state is not None
        assert (state.version, set(state.files)) == (gold.version, truth(gold))
        assert state.committed_ms == 1_767_225_600_000 + gold.version * 1000
    for version in range(gold.version + 1):
        state = log.at(version)
        assert state is not None
        assert set(state.files) == truth(gold, version)
        assert state.table_id == "11111111-1111-1111-1111-111111111111"
    assert log.at(gold.version + 1) is None


def test_a_look_reads_only_what_is_new(
    gold: LiveTable, log: LiveLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.newest()
    read: list[int] = []
    original = live_log._commit

    def counted(folder: Path, version: int) -> object:
        read.append(version)
        return original(folder, version)

    monkeypatch.setattr(live_log, "_commit", counted)
    monkeypatch.setattr(live_log.LogFiles, "listed", lambda path: pytest.fail("listed again"))
    for _ in range(3):
        log.newest()
    gold.append(stats(("X", 1, 1.0)))
    log.newest()
    assert read == [3, 3, 3, 3, 4]


def test_a_state_stays_as_it_is(gold: LiveTable, log: LiveLog) -> None:
    before = log.newest()
    assert before is not None
    names = set(before.files)
    gold.append(stats(("X", 1, 1.0)))
    after = log.newest()
    assert after is not None
    assert (set(before.files), len(after.files)) == (names, len(names) + 1)


def test_a_reader_that_slept_past_a_clean_up_reads_anew(gold: LiveTable, log: LiveLog) -> None:
    log.newest()
    for number in range(5):
        gold.append(stats((f"T{number}", number, 1.0)))
    DeltaTable(str(gold.folder)).create_checkpoint()
    gold.append(stats(("last", 1, 1.0)))
    cleaned_before(gold, gold.version)
    state = log.newest()
    assert state is not None
    assert (state.version, set(state.files)) == (gold.version, truth(gold))


def test_a_table_made_anew_in_the_same_place(
    gold: LiveTable, log: LiveLog, live: Callable[[str], LiveTable]
) -> None:
    log.newest()
    shutil.rmtree(gold.folder)
    again = live("gold.stats").create(STATS)
    assert log.newest().version == 0  # type: ignore[union-attr]
    again.append(stats(("X", 1, 1.0)))
    again.append(stats(("Y", 1, 1.0)))
    state = log.newest()
    assert state is not None
    assert (state.version, set(state.files)) == (2, truth(again))


def test_a_commit_that_is_not_whole_yet_is_not_there(gold: LiveTable, log: LiveLog) -> None:
    commit = gold.folder / "_delta_log" / f"{gold.version + 1:020}.json"
    commit.write_text('{"add": {"path": "x.par')
    state = log.newest()
    assert state is not None
    assert state.version == gold.version
    commit.unlink()


def test_a_log_without_a_beginning_is_said(gold: LiveTable, log: LiveLog) -> None:
    cleaned_before(gold, 1)
    with pytest.raises(QueryRefused, match="no whole beginning"):
        log.newest()


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_what_would_be_misread_is_refused(gold: LiveTable, log: LiveLog, feature: str) -> None:
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    gold.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    for _ in range(2):
        with pytest.raises(QueryRefused, match=feature):
            log.newest()


def test_a_new_column_is_null_in_older_files(
    settings: Settings, gold: LiveTable, declare: Callable[..., None]
) -> None:
    settings.manifest.write_text(
        json.dumps({"tables": [{"name": "gold.stats", "kind": "rows", "keys": ["ticker"]}]})
    )
    with Reader(settings) as reader:
        assert reader.look(Ask("gold.stats", ("AAPL",))).rows == [("AAPL", 3, 10.5)]
        wider = STATS.append(pa.field("note", pa.string()))
        gold.commit(gold.metadata(wider))
        assert reader.look(Ask("gold.stats", ("AAPL",))).rows == [("AAPL", 3, 10.5, None)]


def test_odd_statistics_rule_nothing_out(tmp_path: Path) -> None:
    column = Column("k", "BIGINT")
    for odd in (
        "",
        "{",
        "[]",
        "7",
        '{"minValues": 7}',
        '{"minValues": {"k": "a"}}',
        '{"nullCount": 3}',
    ):
        file = LiveFile(tmp_path, {"path": "a.parquet", "stats": odd})
        assert file.bounds(column) == live_log.Bounds(), odd
    assert not os.listdir(tmp_path)
