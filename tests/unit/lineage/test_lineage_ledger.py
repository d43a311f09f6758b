"""The ledger: every byte on one line, and how many times data exists. Held against `os.walk`."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from lineage_world import EVENTS, SUMS, at

from penstock.errors import UsageError
from penstock.lineage.ledger import measure, usage
from penstock.lineage.revisions import Revisions
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.swap import swap
from penstock.runtime.registry import Revision

NOBODY = Revisions()


def walked(*folders: Path) -> int:
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for start in folders
        for folder, _, names in os.walk(start)
        for name in names
    )


def only(ledger, table: str, revision: str = ""):
    (line,) = [li for li in ledger.lines if (li.table, li.revision) == (table, revision)]
    return line


@pytest.fixture
def filled(world):
    """Some rows everywhere; silver has an orphan and a store; gold has a warm revision."""
    world.follow(world.send(("a", 1, 0), ("b", 2, 0)))
    world.follow(world.send(("a", 3, 1)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 4}])
    (world.silver.path / "orphan.parquet").write_bytes(b"o" * 1000)
    store = world.settings.home / "stores" / "silver.events" / "s1"
    store.mkdir(parents=True)
    (store / "rows.duckdb").write_bytes(b"s" * 500)
    new = world.writer("gold.sums", "g2", SUMS, live=False)
    rows = pa.Table.from_pylist([{"k": "a", "window_start": at(0), "total": 9}], schema=SUMS)
    new.commit(write_arrow(rows, new.path), {"silver.events": 3})
    swap(world.gold.live, new, Change(rows), ("k",), {"operation": "PENSTOCK PROMOTE"})
    return world


KNOWN = Revisions.of(
    [
        Revision("silver.events", "s1", "live", "c", {}),
        Revision("gold.sums", "g1", "warm", "c", {}),
        Revision("gold.sums", "g2", "live", "c", {}),
    ]
)


def test_a_line_says_what_its_newest_version_needs_and_what_else_lies_there(filled):
    line = only(measure(filled.settings, KNOWN), "silver.events", "s1")
    assert (line.state, line.files, line.rows) == ("live", 2, 3)
    parts = list(filled.silver.path.glob("part-*.parquet"))
    assert line.data == sum(part.stat().st_size for part in parts)
    assert line.unneeded == 1000
    assert line.log == walked(filled.silver.path / "_delta_log")
    assert line.store == 500
    assert line.bytes == line.data + 1000 + line.log + 500 + line.live_log


def test_bronze_has_no_revision_and_no_state(filled):
    line = only(measure(filled.settings, KNOWN), "bronze.events")
    assert (line.state, line.files, line.rows) == ("", 2, 3)
    assert line.bytes == walked(filled.bronze.path)


def test_a_live_table_adds_its_log_and_no_data(filled):
    ledger = measure(filled.settings, KNOWN)
    live, warm = only(ledger, "gold.sums", "g2"), only(ledger, "gold.sums", "g1")
    table = filled.folder / "gold" / "sums"
    assert live.live_log == walked(table / "_delta_log", table / "_change_data") > 0
    assert (live.state, warm.state) == ("live", "warm")
    assert warm.live_log == 0
    (copies,) = [c for c in ledger.copies() if c.table == "gold.sums"]
    assert copies.copies == 2
    assert copies.live == live.data
    assert copies.data == live.data + warm.data


def test_every_byte_of_the_warehouse_is_on_one_line(filled):
    ledger = measure(filled.settings, KNOWN)
    stores = filled.settings.home / "stores"
    assert sum(line.bytes for line in ledger.lines) == walked(filled.folder, stores)
    assert ledger.home.bytes == walked(filled.settings.home)
    totals = ledger.as_dict()["totals"]
    assert totals["tables_bytes"] == walked(filled.folder, stores)
    assert totals["raw_bytes"] == only(ledger, "bronze.events").data
    assert totals["raw_rows"] == 3


def test_without_the_registry_states_are_unknown_and_nothing_else_is(filled):
    filled.entries[2]["revision"] = "g2"
    filled.declare()
    down, up = measure(filled.settings, NOBODY), measure(filled.settings, KNOWN)
    assert {line.state for line in down.lines} == {"unknown", ""}
    assert not down.answered
    plain = [[(li.table, li.revision, li.bytes, li.live_log) for li in x.lines] for x in (down, up)]
    assert plain[0] == plain[1]
    assert [c.live for c in down.copies() if c.table == "gold.sums"] == [None]


def test_a_registry_that_is_down_is_no_error(settings):
    assert Revisions.load(settings) == Revisions()


def test_tables_beside_another_have_its_states(filled):
    line = only(measure(filled.settings, KNOWN), "quarantine.silver_events", "s1")
    assert line.state == "live"


def test_bytes_that_no_one_registered_are_called_that(filled):
    filled.writer("silver.events", "lost", EVENTS, live=False)
    assert only(measure(filled.settings, KNOWN), "silver.events", "lost").state == "unregistered"


def test_a_store_without_its_revision_is_counted(filled):
    old = filled.settings.home / "stores" / "silver.events" / "old"
    old.mkdir()
    (old / "rows.duckdb").write_bytes(b"x" * 70)
    gone = filled.settings.home / "stores" / "gold.gone" / "r"
    gone.mkdir(parents=True)
    (gone / "rows.duckdb").write_bytes(b"x" * 30)
    ledger = measure(filled.settings, KNOWN)
    line = only(ledger, "silver.events", "old")
    assert (line.files, line.store, line.bytes) == (0, 70, 70)
    assert [(p.what, p.usage.bytes) for p in ledger.places] == [("store of no table", 30)]


def test_one_table_comes_with_those_beside_it(filled):
    ledger = measure(filled.settings, KNOWN, "silver.events")
    assert {line.table for line in ledger.lines} == {"silver.events", "quarantine.silver_events"}
    assert ledger.lines[0].table == "silver.events"
    assert ledger.places == []
    alone = measure(filled.settings, KNOWN, "quarantine.silver_events")
    assert {line.table for line in alone.lines} == {"quarantine.silver_events"}


def test_a_table_that_is_not_there_is_said(filled):
    with pytest.raises(UsageError, match=r"Did you mean silver\.events"):
        measure(filled.settings, KNOWN, "silver.evnts")


def test_what_services_keep_is_named_where_it_is(filled):
    for folder, size in {"data/kafka/t-0": 10, "data/kafka/out.x-0": 5, "data/postgres": 20,
                         "run/spark": 30, "reports": 40, "export/duckdb": 50,
                         "bundles/b": 60}.items():  # fmt: skip
        path = filled.settings.home / folder
        path.mkdir(parents=True)
        (path / "file").write_bytes(b"x" * size)
    found = {p.folder: p.usage.bytes for p in measure(filled.settings, KNOWN).places}
    assert found == {"data/kafka": 10, "data/kafka/out.*": 5, "data/postgres": 20, "run": 30,
                     "reports": 40, "export/duckdb": 50, "bundles": 60}  # fmt: skip


def test_a_stack_that_was_never_started_is_empty(settings):
    ledger = measure(settings, NOBODY)
    assert (ledger.lines, ledger.places) == ([], [])


def test_links_are_not_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 10)
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    assert usage(tmp_path).bytes < 10 + 200
    assert usage(tmp_path).files == 2


def test_a_revision_that_was_given_up_half_way_counts_by_its_bytes(filled):
    half = filled.folder / "gold" / "sums" / "_revisions" / "half"
    half.mkdir()
    (half / "part-1.parquet").write_bytes(b"x" * 123)
    line = only(measure(filled.settings, KNOWN), "gold.sums", "half")
    assert (line.files, line.data, line.disk) == (0, 0, 123)
