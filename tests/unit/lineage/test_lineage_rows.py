"""From a row down to the records it was made from: each step is known beforehand here."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from lineage_world import EVENTS, NOBODY, SUMS, TOTALS, at, entry, follow, rewrite

from penstock.lineage.revisions import Revisions
from penstock.lineage.tell import told
from penstock.lineage.trace import trace
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.swap import swap
from penstock.runtime.registry import Revision


# --- rows tables ------------------------------------------------------------------------------
def test_a_row_leads_to_its_file_its_code_its_commit_and_its_record(world):
    world.follow(world.send(("a", 1, 0), ("b", 2, 1)))
    wanted = world.send(("a", 3, 2)) + world.send(("c", 4, 3), partition=1)
    version = world.follow(wanted)
    world.follow(world.send(("a", 5, 4)))

    row = follow(world, "silver.events", v=3)
    assert row.row["k"] == "a"
    assert row.revision == "s1"
    assert row.state == "unknown"
    assert row.code == "code-s1"
    assert row.version == version
    assert row.rows_in == 2
    assert row.rewritten_in is None
    file = world.settings.home / row.file
    assert file.parent == world.silver.path
    assert {r["v"] for r in pa.parquet.read_table(file).to_pylist()} == {3, 4}

    (bronze,) = row.inputs
    assert bronze.table == "bronze.events"
    assert bronze.taken == [(3, 4)], "what that commit read: bronze has 0 and 1 without rows"
    assert (bronze.basis, bronze.versions) == ("rows", [(3, 3)])
    assert bronze.rows == 1
    assert bronze.records == [(0, 2, 2, 1)]
    assert [(o.topic_id, o.partition, o.start, o.end) for o in bronze.offsets] == [
        ("Tid/1", 0, 2, 3)
    ]


def test_without_its_place_a_row_leads_to_what_its_commit_took_in(world):
    plain = pa.schema([EVENTS.field("k"), EVENTS.field("v")])
    other = world.writer("gold.plain", "p1", plain)
    world.declare(entry("gold.plain", "rows", {"events": "silver.events"}, "p1"))
    versions = []
    for value in range(4):
        world.follow(world.send(("a", value, value)))
        world.follow(world.send(("b", value, value), partition=1))
        rows = pa.table({"k": ["a"], "v": [value]}, schema=plain)
        files = write_arrow(rows, other.path)
        versions.append(world.silver.log.version)
        other.commit(files, {"silver.events": versions[-1]})

    (silver,) = follow(world, "gold.plain", v=2).inputs
    assert (silver.basis, silver.versions) == ("commit", [(versions[1] + 1, versions[2])])
    (bronze,) = silver.inputs
    assert bronze.basis == "commit"
    assert [(o.partition, o.start, o.end) for o in bronze.offsets] == [(0, 2, 3), (1, 2, 3)]


def test_a_replayed_row_is_found_although_its_commit_took_in_nothing(world):
    good, bad = world.send(("a", 1, 0)), world.send(("a", 2, 1))
    world.follow(good)
    world.follow([])
    replayed = world.follow(bad)  # the position stands where it stood

    row = follow(world, "silver.events", v=2)
    (bronze,) = row.inputs
    assert row.version == replayed
    assert bronze.taken == []
    assert bronze.records == [(0, 1, 1, 1)]


def test_the_offsets_of_a_row_of_bronze_are_those_of_its_commit(world):
    world.send(("a", 1, 0), ("a", 2, 0))
    world.send(("a", 3, 0), ("a", 4, 0), ("a", 5, 0))
    row = follow(world, "bronze.events", partition=0, offset=3)
    assert row.revision == ""
    assert row.version == 3
    assert [(o.start, o.end) for o in row.offsets] == [(2, 5)]
    assert row.inputs == []
    first = follow(world, "bronze.events", offset=1)
    assert [(o.start, o.end) for o in first.offsets] == [(None, 2)], "nothing came before"


# --- windows ----------------------------------------------------------------------------------
def test_a_window_leads_to_its_own_rows_not_to_those_that_closed_it(world):
    kept, versions = [], []
    for number in range(6):
        seconds = number * 20  # three batches a minute
        rows = world.send(("a", number, seconds), ("b", 100, seconds))
        versions.append(world.follow(rows))
        kept += rows
        world.sum_up([])
    closing = world.follow(world.send(("z", 0, 200)))
    made = world.sum_up([{"k": "a", "window_start": at(60), "total": 3 + 4 + 5}])

    row = follow(world, "gold.sums", k="a", window_start="2026-01-01T00:01:00Z")
    assert row.version == made
    (silver,) = row.inputs
    assert silver.taken == [(closing, closing)]
    assert (silver.basis, silver.rows) == ("rows", 3)
    assert silver.versions == [(versions[3], versions[5])]
    (bronze,) = silver.inputs
    wanted = [r["offset"] for r in kept if r["k"] == "a" and at(60) <= r["at"] < at(120)]
    assert bronze.records == [(0, min(wanted), max(wanted), len(wanted))]
    assert bronze.rows == len(wanted)


def test_rows_that_came_after_the_window_was_written_are_not_its_origin(world):
    world.follow(world.send(("a", 1, 0)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 1}])
    world.follow(world.send(("a", 2, 1)))
    (silver,) = follow(world, "gold.sums", k="a").inputs
    assert silver.rows == 1


def test_where_keys_are_not_those_of_the_input_everything_up_to_then_is_named(world):
    world.follow(world.send(("a", 1, 0)))
    world.sum_up([{"k": "A!", "window_start": at(0), "total": 1}])
    (silver,) = follow(world, "gold.sums", k="A!").inputs
    assert (silver.basis, silver.rows) == ("everything", None)
    assert silver.versions == [(0, world.silver.log.version)]


# --- files that are written again -------------------------------------------------------------
@pytest.fixture
def totals(world):
    """A table of one file that every commit replaces: b is written once, a again and again."""
    writer = world.writer("gold.totals", "t1", TOTALS)
    world.declare(entry("gold.totals", "totals", {"events": "silver.events"}, "t1",
                        keys=["k"], by=["k"]))  # fmt: skip
    world.follow(world.send(("a", 1, 0), ("b", 5, 0)))
    held = pa.table({"k": ["a", "b"], "total": [1, 5]}, schema=TOTALS)
    writer.commit(write_arrow(held, writer.path), {"silver.events": world.silver.log.version})
    for total in range(2, 12):
        world.follow(world.send(("a", 1, total)))
        now = pa.table({"k": ["a", "b"], "total": [total, 5]}, schema=TOTALS)
        actions = rewrite(writer, held, now, ("k",))
        writer.commit(actions, {"silver.events": world.silver.log.version})
        held = now
    return writer


def test_a_row_that_was_carried_along_is_older_than_its_file(world, totals):
    row = follow(world, "gold.totals", k="b")
    assert row.version == 2, "the first commit after the lease"
    assert row.rewritten_in == totals.log.version
    (silver,) = row.inputs
    assert (silver.rows, silver.versions) == (1, [(2, 2)])


def test_a_row_that_changed_is_as_old_as_its_change(world, totals):
    row = follow(world, "gold.totals", k="a")
    assert row.version == totals.log.version
    assert row.rewritten_in is None
    assert row.inputs[0].rows == 11


def test_rows_of_an_input_that_rewrites_its_files_are_said_to_be_maybe_older(world, totals):
    reader = world.writer("gold.reader", "r1", TOTALS)
    world.declare(entry("gold.reader", "group", {"totals": "gold.totals"}, "r1",
                        keys=["k"], by=["k"]))  # fmt: skip
    rows = pa.table({"k": ["b"], "total": [5]}, schema=TOTALS)
    reader.commit(write_arrow(rows, reader.path), {"gold.totals": totals.log.version})
    (middle,) = follow(world, "gold.reader", k="b").inputs
    assert "older" in middle.note
    (silver,) = middle.inputs
    assert (silver.rows, silver.versions) == (1, [(2, 2)]), "found by key, not by version"


def test_a_row_that_came_back_is_as_old_as_its_return(world):
    writer = world.writer("gold.totals", "t1", TOTALS)
    world.declare(entry("gold.totals", "totals", {"events": "silver.events"}, "t1",
                        keys=["k"], by=["k"]))  # fmt: skip
    held = pa.table({"k": ["a", "b"], "total": [1, 5]}, schema=TOTALS)
    writer.commit(write_arrow(held, writer.path), {"silver.events": 0})
    versions = []
    for totals in ([2, 5], [1, 5], [1, 6], [1, 7]):
        now = pa.table({"k": ["a", "b"], "total": totals}, schema=TOTALS)
        versions.append(writer.commit(rewrite(writer, held, now, ("k",)), {"silver.events": 0}))
        held = now
    row = follow(world, "gold.totals", k="a")
    assert (row.version, row.rewritten_in) == (versions[1], versions[3])


def test_a_row_whose_twin_went_came_when_it_came(world):
    writer = world.writer("gold.bag", "b1", TOTALS)
    world.declare(entry("gold.bag", "rows", {"events": "silver.events"}, "b1"))
    twins = pa.table({"k": ["a", "a"], "total": [1, 1]}, schema=TOTALS)
    came = writer.commit(write_arrow(twins, writer.path), {"silver.events": 0})
    (file,) = writer.log.snapshot().get_add_actions(flatten=True)["path"].to_pylist()
    gone = Change(twins.slice(0, 0), twins.slice(0, 1))
    actions = [removal(file, 1), *write_arrow(twins.slice(1), writer.path),
               *write_changes(gone, (), writer.path)]  # fmt: skip
    writer.commit(actions, {"silver.events": 0})
    assert follow(world, "gold.bag", k="a").version == came


def test_what_a_rewriting_rows_table_read_is_not_narrowed_to_its_last_commit(world, totals):
    mapped = world.writer("gold.mapped", "m1", TOTALS)
    reader = world.writer("gold.reader", "r1", TOTALS)
    world.declare(
        entry("gold.mapped", "rows", {"totals": "gold.totals"}, "m1", keys=["k"]),
        entry("gold.reader", "group", {"mapped": "gold.mapped"}, "r1", keys=["k"], by=["k"]),
    )
    held = pa.table({"k": ["a", "b"], "total": [1, 5]}, schema=TOTALS)
    mapped.commit(write_arrow(held, mapped.path), {"gold.totals": 2})
    now = pa.table({"k": ["a", "b"], "total": [2, 5]}, schema=TOTALS)
    mapped.commit(rewrite(mapped, held, now, ("k",)), {"gold.totals": 3})
    files = write_arrow(now.slice(1), reader.path)
    reader.commit(files, {"gold.mapped": mapped.log.version})
    (middle,) = follow(world, "gold.reader", k="b").inputs
    (source,) = middle.inputs
    assert source.versions == [(0, 3)], "b came with version 2, a commit before the file's"


# --- joins ------------------------------------------------------------------------------------
def test_a_join_that_found_nobody_says_so(world):
    people = world.writer("silver.people", "p1", TOTALS)
    people.commit(write_arrow(pa.table({"k": ["b"], "total": [1]}, schema=TOTALS), people.path), {})
    joined = world.writer("gold.joined", "j1", EVENTS)
    world.declare(
        entry("silver.people", "latest", {}, "p1", by=["k"]),
        entry("gold.joined", "enrich", {"events": "silver.events", "people": "silver.people"},
              "j1", keys=["offset"], by=["k"], on="at"),
    )  # fmt: skip
    sent = world.send(("a", 1, 0), ("b", 2, 0))
    world.follow(sent)
    files = write_arrow(pa.Table.from_pylist(sent, schema=EVENTS), joined.path)
    joined.commit(files, {"silver.events": 2, "silver.people": 2})
    facts, nobody = follow(world, "gold.joined", k="a").inputs
    assert (facts.rows, nobody.rows, nobody.versions, nobody.inputs) == (1, 0, [], [])
    found = trace(world.settings, NOBODY, "gold.joined", [("k", "a")])
    assert any(line.endswith("silver.people@p1: no row with its k") for line in told(found))
    _, somebody = follow(world, "gold.joined", k="b").inputs
    assert (somebody.rows, somebody.versions) == (1, [(2, 2)])


# --- revisions --------------------------------------------------------------------------------
def test_after_a_promote_the_file_tells_the_new_revision(world):
    world.follow(world.send(("a", 1, 0)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 1}])
    new = world.writer("gold.sums", "g2", SUMS, live=False)
    rows = pa.Table.from_pylist([{"k": "a", "window_start": at(0), "total": 7}], schema=SUMS)
    files = write_arrow(rows, new.path)
    new.commit(files, {"silver.events": world.silver.log.version})
    none = rows.slice(0, 0)
    swap(world.gold.live, new, Change(rows, none), ("k",), {"operation": "PENSTOCK PROMOTE"})

    known = Revisions.of([
        Revision("gold.sums", "g1", "warm", "code-g1", {"silver.events": "s1"}),
        Revision("gold.sums", "g2", "live", "code-g2", {"silver.events": "s1"}),
    ])  # fmt: skip
    row = follow(world, "gold.sums", known, k="a")
    assert (row.revision, row.state, row.code) == ("g2", "live", "code-g2")
    assert row.row["total"] == 7
    assert row.version == 2, "of the revision, not of the live table"
    (silver,) = row.inputs
    assert (silver.revision, silver.note, silver.rows) == ("s1", "", 1)


@pytest.fixture
def two_silvers(world):
    """Silver has two revisions; gold reads the older one, and the manifest names the newer."""
    sent = world.send(("a", 1, 0))
    world.follow(sent)
    world.follow(world.send(("a", 2, 1)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 3}])
    newer = world.writer("silver.events", "s2", EVENTS, live=False)
    for _ in range(4):
        world.follow(sent, to=newer)
    world.entries[1]["revision"] = "s2"
    world.declare()
    return world


def test_the_registry_says_which_revision_was_read(two_silvers):
    pinned = Revision("gold.sums", "g1", "live", "c", {"silver.events": "s2"})
    (silver,) = follow(two_silvers, "gold.sums", Revisions.of([pinned]), k="a").inputs
    assert (silver.revision, silver.note) == ("s2", "")


def test_without_the_registry_the_times_of_commits_tell_and_it_is_said(two_silvers):
    (silver,) = follow(two_silvers, "gold.sums", k="a").inputs
    assert silver.revision == "s1", "s2 did not exist when gold committed"
    assert "told by the time" in silver.note
    assert silver.rows == 2


def test_an_input_whose_bytes_are_gone_is_named_all_the_same(two_silvers):
    shutil.rmtree(two_silvers.silver.path)
    pinned = Revision("gold.sums", "g1", "live", "c", {"silver.events": "s1"})
    (silver,) = follow(two_silvers, "gold.sums", Revisions.of([pinned]), k="a").inputs
    assert silver.note == "its files are gone"
    assert silver.versions == [(0, 3)]
    assert silver.inputs == []
