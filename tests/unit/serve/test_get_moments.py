"""Look-ups at other moments: older versions, revisions, and files that go meanwhile."""

from __future__ import annotations

import json
from collections import deque

import duckdb
import pytest
from deltalake import DeltaTable
from looked_up import WINDOWS, KeyedTable, at, rows, windows

from penstock.errors import UsageError
from penstock.serve import lookup, snapshot
from penstock.serve.asked import Ask
from penstock.serve.limits import Gone
from penstock.serve.lookup import Reader
from penstock.serve.values import as_text
from penstock.settings import Settings


def test_older_versions_and_times(sensors: KeyedTable, reader: Reader) -> None:
    key = ("s-1", as_text(at(4)))
    assert not reader.look(Ask("gold.windows@version:4", key)).rows
    found = reader.look(Ask("gold.windows@version:5", key))
    assert (found.opened.state.version, rows(found)[0]["n"]) == (5, 104)
    with pytest.raises(UsageError):
        reader.look(Ask("gold.windows@version:99", key))
    with pytest.raises(UsageError, match="names no moment"):
        reader.look(Ask("gold.windows@yesterday", key))


def test_a_revision_that_is_not_live_has_its_own_keys(
    sensors: KeyedTable, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = KeyedTable.__new__(KeyedTable)
    super(KeyedTable, other).__init__(sensors.folder / "_revisions" / "r2")
    other.create(WINDOWS).append(windows(("new", 1, 7)), rev="x")
    monkeypatch.setattr(reader.catalog(), "_revision_in", lambda table, state: "r2")
    monkeypatch.setattr(reader, "_meaning", lambda label, revision: {"keys": ["n"]})
    found = reader.look(Ask("gold.windows@candidate", ("7",)))
    assert [row["sensor"] for row in rows(found)] == ["new"]
    assert found.opened.ref.label == "gold.windows@candidate"


def test_a_promote_is_seen_by_the_next_question(sensors: KeyedTable, reader: Reader) -> None:
    key = ("s-1", as_text(at(4)))
    assert rows(reader.look(Ask("gold.windows", key)))[0]["n"] == 104
    adds = [{"path": p, "partitionValues": {}, "size": 1} for p in current(sensors)]
    sensors.replace(adds, windows(("s-1", 4, -1)), rev="r2")
    found = reader.look(Ask("gold.windows", key))
    assert [row["n"] for row in rows(found)] == [-1]
    assert len(reader.look(Ask("gold.windows", ("s-1",))).rows) == 1


def current(table: KeyedTable) -> list[str]:
    return DeltaTable(str(table.folder)).get_add_actions(flatten=True).column("path").to_pylist()


def test_a_file_cleaned_up_under_the_reader_is_asked_for_in_the_newest_version(
    sensors: KeyedTable, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the log and the look at the file."""
    gone = [{"path": p, "partitionValues": {}, "size": 1} for p in current(sensors)]
    opened = reader.open(Ask("gold.windows", ("s-1", as_text(at(4)))))
    sensors.replace(gone, windows(("s-1", 4, -1)))
    sensors.vacuum(gone)
    answer = reader.read(opened)
    assert [row["n"] for row in rows(answer)] == [-1]
    assert answer.opened.state.version == opened.state.version + 1


def test_a_version_whose_files_are_gone_is_gone(sensors: KeyedTable, reader: Reader) -> None:
    page = reader.look(Ask("gold.windows", ("s-1",), limit=2))
    gone = [{"path": p, "partitionValues": {}, "size": 1} for p in current(sensors)]
    sensors.replace(gone, windows(("s-1", 4, -1)))
    sensors.vacuum(gone)
    for ask in (Ask("gold.windows", ("s-1",), limit=2, cursor=page.next),
                Ask("gold.windows@version:9", ("s-1", as_text(at(4))))):  # fmt: skip
        with pytest.raises(Gone, match="cleaned up"):
            reader.look(ask)


def test_a_cursor_is_of_one_table_not_of_one_made_anew_in_its_place(
    sensors: KeyedTable, settings: Settings
) -> None:
    with Reader(settings) as reader:
        page = reader.look(Ask("gold.windows", ("s-1",), limit=2))
    metadata = sensors.metadata(WINDOWS)
    metadata["metaData"]["id"] = "22222222-2222-2222-2222-222222222222"
    first = sensors.folder / "_delta_log" / f"{0:020}.json"
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    first.write_text("\n".join(map(json.dumps, (protocol, metadata))))
    with Reader(settings) as reader, pytest.raises(Gone):
        reader.look(Ask("gold.windows", ("s-1",), limit=2, cursor=page.next))


def test_a_file_that_is_gone_for_good_is_said(sensors: KeyedTable, reader: Reader) -> None:
    sensors.vacuum([{"path": path} for path in current(sensors)])
    with pytest.raises(lookup.ServiceFailed, match="cannot be read"):
        reader.look(Ask("gold.windows", ("s-1",)))


def test_a_version_yet_to_come_is_refused_before_anything_is_opened(
    sensors: KeyedTable, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs looks for each commit up to the number it is given: minutes, or for ever."""
    monkeypatch.setattr(snapshot, "delta_table", lambda *_: pytest.fail("it was opened"))
    newest = DeltaTable(str(sensors.folder)).version()
    for version in (newest + 1, 10**15):
        with pytest.raises(UsageError, match=f"Its newest version is {newest}"):
            reader.look(Ask(f"gold.windows@version:{version}", ("s-1",)))


def test_an_idle_connection_that_another_thread_took_is_made_anew(
    sensors: KeyedTable, reader: Reader
) -> None:
    class Taken(deque[duckdb.DuckDBPyConnection]):
        """Holds one when it is looked at, and none when it is asked."""

        def __bool__(self) -> bool:
            return True

    reader._idle = Taken()
    assert reader.look(Ask("gold.windows", ("s-1",))).rows
    reader._idle = deque()
