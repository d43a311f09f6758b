"""What may be asked of a row's way, of rows beside a table too, and how it is told."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lineage_world import NOBODY, at, follow

from penstock.errors import QueryRefused, UsageError
from penstock.lineage.tell import told
from penstock.lineage.trace import trace
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.fates import late, quarantine


# --- beside a table ---------------------------------------------------------------------------
def test_a_row_in_quarantine_leads_to_the_commit_that_decided_and_to_its_record(world):
    world.follow(world.send(("a", 1, 0)))
    good, bad = world.send(("a", 2, 1), ("bad", 3, 1))
    line = {"row_id": "events/1", "source": "bronze.events", "topic": "events", "partition": 0,
            "offset": bad["offset"], "error_class": "contract"}  # fmt: skip
    table = pa.Table.from_pylist([line], schema=quarantine.SCHEMA)
    apart = {"quarantine": write_arrow(table, world.broken.path)}
    decided = world.follow([good], apart=apart)

    row = follow(world, "quarantine.silver_events", row_id="events/1")
    (main,) = row.inputs
    assert (main.table, main.basis, main.versions) == (
        "silver.events", "decision", [(decided, decided)]
    )  # fmt: skip
    (bronze,) = main.inputs
    assert bronze.records == [(0, bad["offset"], bad["offset"], 1)]


def test_a_late_row_leads_to_what_came_in_with_the_commit_that_found_it_late(world):
    lines = world.writer("late.gold_sums", "g1", late.SCHEMA)
    world.gold.adopt("late", lines)
    for seconds in (0, 60, 120):
        world.follow(world.send(("a", 1, seconds)))
        world.sum_up([])
    tardy = world.follow(world.send(("a", 9, 1)))
    line = {"row_id": "r1", "source": "silver.events", "status": "late", "event_time": at(1)}
    table = pa.Table.from_pylist([line], schema=late.SCHEMA)
    apart = {"late": write_arrow(table, lines.path)}
    decided = world.gold.commit([], {"silver.events": tardy}, apart=apart)
    (main,) = follow(world, "late.gold_sums", row_id="r1").inputs
    assert main.versions == [(decided, decided)]
    (silver,) = main.inputs
    assert (silver.basis, silver.versions) == ("commit", [(tardy, tardy)])


# --- what is asked ----------------------------------------------------------------------------
def test_several_rows_are_counted_and_the_first_five_followed(world):
    world.follow(world.send(*(("a", value, value) for value in range(9, 0, -1))))
    found = trace(world.settings, NOBODY, "silver.events", [("k", "a")])
    assert found.count == 9
    assert [row.row["v"] for row in found.rows] == [1, 2, 3, 4, 5]


def test_null_finds_rows_without_a_value(world):
    world.follow([{**row, "k": None} for row in world.send(("a", 1, 0))])
    world.follow(world.send(("NULL", 2, 0)))
    found = trace(world.settings, NOBODY, "silver.events", [("k", "NULL")])
    assert [row.row["v"] for row in found.rows] == [1]


@pytest.mark.parametrize(
    ("table", "wanted", "said"),
    [
        ("silver.event", [("k", "a")], "Did you mean silver.events"),
        ("silver.events", [("nobody", "a")], "it has k, v, at, partition, offset"),
        ("silver.events", [("v", "many")], "is no value of silver.events.v, which is bigint"),
        ("silver.events", [("at", "yesterday")], "Times are written as"),
        ("gold.sums", [("k'; drop table x", "a")], "no column"),
    ],
)
def test_what_cannot_be_meant_is_said(world, table, wanted, said):
    world.follow(world.send(("a", 1, 0)))
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        trace(world.settings, NOBODY, table, wanted)


def test_a_value_is_never_taken_for_sql(world):
    world.follow(world.send(("it's", 1, 0)))
    assert follow(world, "silver.events", k="it's").row["v"] == 1
    assert trace(world.settings, NOBODY, "silver.events", [("k", "x' or 'a'='a")]).count == 0


# --- in words ---------------------------------------------------------------------------------
def test_the_way_is_told_from_the_row_to_the_offsets(world):
    for seconds in (0, 20):
        world.follow(world.send(("a", 1, seconds), ("b", 1, seconds)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 2}])
    found = trace(world.settings, NOBODY, "gold.sums", [("k", "a")])
    lines = list(told(found))
    assert lines[0] == "gold.sums"
    assert "  row       k=a  window_start=2026-01-01T00:00:00Z  total=2" in lines
    assert "  revision  g1, state unknown" in lines
    assert "  code      bundles/code-g1" in lines
    assert lines.index("  made from") + 1 == lines.index(
        "  └─ silver.events@s1: 2 rows with its k and a at in its window, versions 2 to 3"
    )
    assert lines[-1].strip() == "topic events, partition 0: 2 records in offsets 0 to 2"


def test_data_cannot_drive_the_terminal(world):
    world.follow(world.send(("\x1b[31mred", 1, 0)))
    found = trace(world.settings, NOBODY, "silver.events", [("v", "1")])
    assert not any("\x1b" in line for line in told(found))


def test_a_long_value_is_cut_in_words_and_whole_in_json(world):
    world.follow(world.send(("x" * 5000, 1, 0)))
    found = trace(world.settings, NOBODY, "silver.events", [("v", "1")])
    assert max(map(len, told(found))) < 400
    assert found.as_dict()["rows"][0]["row"]["k"] == "x" * 5000


def test_a_file_that_is_gone_is_an_error_in_words(world):
    world.follow(world.send(("a", 1, 0)))
    for file in world.silver.path.glob("part-*.parquet"):
        file.unlink()
    with pytest.raises(QueryRefused, match="looking through the files"):
        trace(world.settings, NOBODY, "silver.events", [("v", "1")])


def test_the_module_in_the_bundle_is_named_where_it_is(world):
    world.follow(world.send(("a", 1, 0)))
    inside = world.settings.bundles / "code-s1" / "spark_jobs" / "silver" / "events.py"
    inside.parent.mkdir(parents=True)
    inside.write_text("# code")
    assert follow(world, "silver.events", v=1).module == (
        "bundles/code-s1/spark_jobs/silver/events.py"
    )
