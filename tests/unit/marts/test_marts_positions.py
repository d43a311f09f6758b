"""When the note of an incremental mart may be relied on, and when it is built anew.

All of this is decided before the change feed is read, so there is no session here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from penstock.marts.positions import MOST_COMMITS, Follower, Position, position_of

ROWS = pa.table({"day": ["2026-11-01"], "n": [1]})
FEED = {"delta.enableChangeDataFeed": "true"}


class World:
    """A live table and the mart that follows it."""

    def __init__(self, folder: Path) -> None:
        self.live, self.mart = folder / "live", folder / "mart"
        write_deltalake(str(self.live), ROWS, configuration=FEED)

    def note(self, **other: Any) -> None:
        table = DeltaTable(str(self.live))
        read = {"gold.t": {"id": str(table.metadata().id), "version": table.version()}}
        self.write({"mart": "m", "code": "c", "read": read} | other)

    def write(self, note: dict[str, Any] | None) -> None:
        told = {"userMetadata": json.dumps(note)} if note else {}
        properties = CommitProperties(custom_metadata=told)
        write_deltalake(str(self.mart), ROWS, mode="overwrite", commit_properties=properties)

    def position(self, *, code: str = "c", full: bool = False, live: bool = True) -> Position:
        follower = Follower("m", {"gold.t": "day"}, code, self.mart)
        sources = {"gold.t": self.live} if live else {}
        return position_of(None, follower, sources, full=full)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_mart_that_read_everything_has_nothing_to_do(world):
    world.note()
    position = world.position()
    assert (position.rebuild, position.touched) == (False, [])
    assert json.loads(position.note)["read"]["gold.t"]["version"] == 0


def test_upkeep_does_not_hide_the_note(world):
    world.note()
    DeltaTable(str(world.mart)).optimize.compact()
    assert not world.position().rebuild


def test_the_newest_note_counts(world):
    world.note(read={})
    world.note()
    assert not world.position().rebuild


@pytest.mark.parametrize("full", [True, False])
def test_a_mart_that_is_not_there_is_built(world, full):
    position = world.position(full=full)
    assert position.rebuild
    assert position.why == ("asked for" if full else "it does not exist yet")
    assert json.loads(position.note)["mart"] == "m"


def test_other_sql_builds_anew(world):
    world.note()
    assert world.position(code="d").why == "its SQL changed"


def test_a_note_of_another_mart_is_none(world):
    world.note(mart="another")
    assert "somebody else wrote to it" in world.position().why


def test_a_write_by_hand_builds_anew(world):
    world.note()
    DeltaTable(str(world.mart)).delete("n = 1")
    assert world.position().why == "somebody else wrote to it (DELETE)"


def test_a_restored_mart_is_built_anew(world):
    world.note()
    world.note()
    DeltaTable(str(world.mart)).restore(0)
    assert world.position().why == "somebody else wrote to it (RESTORE)"


def test_another_table_at_the_path_builds_anew(world):
    world.note(read={"gold.t": {"id": "somebody", "version": 0}})
    assert "another table" in world.position().why


def test_a_table_that_went_back_builds_anew(world):
    table = DeltaTable(str(world.live))
    world.note(read={"gold.t": {"id": str(table.metadata().id), "version": 7}})
    assert "went back" in world.position().why


def test_other_columns_build_anew(world):
    world.note()
    more = ROWS.append_column("more", pa.array([1]))
    write_deltalake(str(world.live), more, mode="append", schema_mode="merge")
    assert "other columns" in world.position().why


def test_a_table_that_had_no_data_or_lost_it_builds_anew(world):
    world.note(read={})
    assert "had no data" in world.position().why
    world.note()
    assert world.position(live=False).why == "gold.t is gone"


def test_too_long_a_feed_builds_anew(world, monkeypatch):
    world.note()
    monkeypatch.setattr("penstock.marts.positions.MOST_COMMITS", 2)
    for _ in range(3):
        write_deltalake(str(world.live), ROWS, mode="append")
    assert world.position().why == "gold.t is 3 commits ahead"
    assert MOST_COMMITS > 100


def test_a_feed_that_cannot_be_read_builds_anew(world):
    world.note()
    write_deltalake(str(world.live), ROWS, mode="append")
    assert "change feed of gold.t cannot be read" in world.position().why  # there is no session
