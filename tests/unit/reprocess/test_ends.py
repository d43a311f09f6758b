"""Revisions end when nobody needs them any more: not while a live log shows them, or a reader who
was promised its commits stands before."""

from __future__ import annotations

import types

import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import ForeignCommit, LeaseLost, PenstockError, UsageError
from penstock.model.names import TableName
from penstock.reprocess.release import Releases
from penstock.runtime.registry import State
from penstock.runtime.supervise import ends, operate
from penstock.runtime.supervise.supervisor import Supervisor
from penstock.runtime.supervise.sweep import Sweep
from penstock.runtime.upkeep.claims import Claims
from tests.unit.reprocess.operated import TABLE, World, made, reopened, swapped_in_part


@pytest.fixture
def world(tmp_path, monkeypatch):
    yield from made(tmp_path, monkeypatch)


def test_what_live_shows_is_noted_even_if_the_rest_fails_and_never_deleted(world):
    beside = world.path(TABLE.quarantine)
    write_deltalake(str(beside), DeltaTable(str(beside)).to_pyarrow_table(), mode="append")
    with pytest.raises(PenstockError, match="its quarantine table does not yet"):
        world.swap("A", "X")
    assert world.book.live == world.shows() == "A"
    world.book.states["A"] = State.CANDIDATE  # whatever a registry may say
    with pytest.raises(UsageError, match=f"live shows files of .*penstock promote {TABLE}"):
        ends.drop(world, world.book, {"revisions": [[str(TABLE), "A"]]})
    assert world.rows() == world.of("A")


@pytest.mark.parametrize(("revision", "verb"), [("X", "rollback"), ("W", "retire")])
def test_only_candidates_are_given_up(world, revision, verb):
    with pytest.raises(UsageError, match=f"not a candidate.*penstock {verb} {TABLE}"):
        ends.drop(world, world.book, {"revisions": [[str(TABLE), revision]]})
    assert revision in world.book.states


def test_nothing_is_deleted_where_a_part_is_refused(world):
    wanted = [[str(TABLE), "A"], [str(TABLE), "W"]]
    with pytest.raises(UsageError, match="W is warm"):
        ends.drop(world, world.book, {"revisions": wanted})
    assert world.book.states["A"] == State.CANDIDATE
    assert world.of("A") == [("a", 2)]


def test_a_candidate_whose_name_was_live_once_can_be_given_up(world):
    world.swap("A", "X")
    world.swap("X", "A", "rollback")
    world.book.states["A"] = State.CANDIDATE
    ends.drop(world, world.book, {"revisions": [[str(TABLE), "A"]]})
    assert "A" not in world.book.states
    assert world.rows() == world.of("X")


def broken_rows(world: World) -> list[str]:
    found = DeltaTable(str(world.path(TABLE.quarantine))).to_pyarrow_table()
    return sorted(found["row_id"].to_pylist())


def test_what_a_live_log_shows_is_not_retired(world, monkeypatch):
    swapped_in_part(world, monkeypatch)
    world.book.overdue = lambda: [(str(TABLE), "X"), (str(TABLE), "W")]
    chore = Sweep(world.settings, world, keep_seconds=0)
    chore._swept(world.book)
    assert chore.retired == [f"{TABLE}@W"]
    assert world.book.states["X"] == State.WARM
    releases = Releases(world.settings, world.book, None, "me")
    with pytest.raises(UsageError, match="penstock promote --release r --why"):
        releases.retire(str(TABLE))
    assert world.book.states["X"] == State.WARM
    world.swap("A", "X")  # finishes it
    assert broken_rows(world) == ["A"]
    releases.retire(str(TABLE))
    assert world.book.states["X"] == State.RETIRED


def test_a_live_log_that_cannot_be_read_does_not_stop_the_sweep(world):
    commit = world.path(TABLE.late) / "_delta_log" / f"{0:020d}.json"
    commit.write_text("{")
    world.book.overdue = lambda: [(str(TABLE), "W")]
    assert Sweep(world.settings, world, keep_seconds=0)._swept(world.book) == []
    assert world.book.states["W"] == State.WARM, "nobody knows whether it is shown"


def test_a_live_log_that_shows_what_nobody_feeds_is_not_built_on(world, monkeypatch):
    swapped_in_part(world, monkeypatch)
    world.book.states["X"] = State.RETIRED  # whatever a registry may say
    with pytest.raises(
        ForeignCommit, match=f"shows revision X.*penstock repair {TABLE.quarantine}"
    ):
        reopened(world).beside(world.book.now("A"), "quarantine")
    assert broken_rows(world) == ["X"]
    asked = {"table": str(TABLE), "part": "quarantine", "who": "me", "why": "x"}
    operate._repair(world, world.book, asked)
    assert reopened(world).beside(world.book.now("A"), "quarantine").live is not None
    assert broken_rows(world) == ["A"]


def test_a_rollback_nobody_noted_of_a_revision_that_was_retired(world):
    world.swap("A", "X")
    done = world.book.done.copy()
    world.swap("X", "A", "rollback")
    world.book.done = done
    world.book.states.update(A=State.LIVE, X=State.RETIRED)
    with pytest.raises(ForeignCommit, match=f"shows revision X.*penstock repair {TABLE}"):
        reopened(world).of(world.book.now("A"))
    assert world.rows() == world.of("X")


# --- readers that were promised what a retired revision holds -------------------------------------
def feed_after(world: World, version: int, name: TableName = TABLE) -> int:
    """How many changes a reader finds that goes on from a version."""
    table = DeltaTable(str(world.path(name)))
    return table.load_cdf(starting_version=version + 1).read_all().num_rows


@pytest.mark.parametrize("name", [TABLE, TABLE.quarantine], ids=str)
def test_a_retired_revision_stays_for_a_reader_that_stands_before_it_went(world, name):
    began = DeltaTable(str(world.path(name))).version() - 1
    world.swap("A", "X")
    shows = DeltaTable(str(world.path(name))).version()
    world.book.states["X"] = State.RETIRED
    world.book.droppable = lambda keep: [(str(TABLE), "X")]
    changes, claims = feed_after(world, began, name), Claims(world.settings.home)
    assert changes > 1

    claims.hold("export-duckdb", str(name), began)
    chore = Sweep(world.settings, world, keep_seconds=0)
    assert chore._swept(world.book) == []
    assert chore.kept == [f"{TABLE}@X for export-duckdb"]
    assert feed_after(world, began, name) == changes

    claims.hold("export-duckdb", str(name), shows)  # it went on
    assert Sweep(world.settings, world, keep_seconds=0)._swept(world.book) == [f"{TABLE}@X"]


def test_a_claim_that_is_over_or_of_another_table_keeps_nothing(world):
    world.swap("A", "X")
    world.book.states["X"] = State.RETIRED
    world.book.droppable = lambda keep: [(str(TABLE), "X")]
    claims = Claims(world.settings.home)
    claims.hold("export-duckdb", str(TABLE), 0, days=0)
    claims.hold("publisher", "gold.other", 0)
    assert Sweep(world.settings, world, keep_seconds=0)._swept(world.book) == [f"{TABLE}@X"]


def test_a_takeover_of_many_tables_does_not_outlast_its_slot(world, monkeypatch):
    """Each log takes a while to open: the slot is renewed before every one."""
    renewed, opened = [], []
    real = ends.delta_table

    def slow(path):
        opened.append(len(renewed))
        return real(path)

    monkeypatch.setattr(ends, "delta_table", slow)
    supervisor = types.SimpleNamespace(
        settings=world.settings,
        registry=world.book,
        shares=types.SimpleNamespace(
            held={},
            mine=lambda revisions: {str(TABLE)},
            take=lambda tables: dict.fromkeys(tables, 2),
            keep=lambda taken: None,
            whole=lambda revisions, wanted: wanted,
            renew=lambda: renewed.append(True) or True,
        ),
    )
    supervisor._keep_slot = lambda: Supervisor._keep_slot(supervisor)
    streams = types.SimpleNamespace(errands=types.SimpleNamespace(busy=False))
    found = Supervisor._settled(supervisor, streams)
    assert {revision.revision for revision in found} == {"X", "A", "W"}
    assert opened == [1]
    supervisor.shares.renew = lambda: False
    with pytest.raises(LeaseLost, match="ran out"):
        Supervisor._settled(supervisor, streams)
    assert opened == [1], "what is somebody else's now is not touched"
