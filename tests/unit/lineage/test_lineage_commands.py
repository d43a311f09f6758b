"""`penstock lineage` and `penstock ledger` as they are typed; nothing runs behind them."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from lineage_world import at

from penstock.cli import lineage as commands
from penstock.errors import EnvironmentProblem, NotRunning, UsageError
from penstock.settings import Settings


@pytest.fixture
def typed(settings, tmp_path, monkeypatch):
    """Type a command at a stack without services, whose project is a folder of its own."""
    (tmp_path / "pyproject.toml").write_text("[tool.penstock]\n")
    mine = replace(settings, project=tmp_path)
    monkeypatch.setattr(Settings, "load", classmethod(lambda cls: mine))

    def run(command: str, *words: str):
        return CliRunner().invoke(getattr(commands, command), [*words])

    return run


@pytest.fixture
def filled(world):
    world.follow(world.send(("a", 1, 0), ("b", 2, 0)))
    world.follow(world.send(("a", 3, 1)))
    world.sum_up([{"k": "a", "window_start": at(0), "total": 4}])
    return world


@pytest.mark.parametrize("command", ["lineage", "ledger"])
def test_help_says_what_it_does_with_examples(typed, command):
    told = typed(command, "--help")
    assert told.exit_code == 0
    assert "Examples" in told.stdout
    assert f"penstock {command}" in told.stdout
    assert "--json" in told.stdout


def test_a_row_is_told_in_words_and_as_json(typed, filled):
    words = typed("lineage", "gold.sums", "k=a")
    assert words.exit_code == 0
    assert "2 rows with its k and a at in its window" in words.stdout
    assert "partition 0: 2 records in offsets 0 to 2" in words.stdout
    told = json.loads(typed("lineage", "gold.sums", "k=a", "--json").stdout)
    assert told["count"] == 1
    (row,) = told["rows"]
    assert row["row"] == {"k": "a", "window_start": "2026-01-01T00:00:00Z", "total": 4}
    (silver,) = row["inputs"]
    (bronze,) = silver["inputs"]
    assert (silver["rows"], bronze["records"]) == (2, [[0, 0, 2, 2]])


def test_several_rows_are_counted(typed, filled):
    told = typed("lineage", "silver.events", "partition=0").stdout
    assert told.startswith("3 rows are meant.")
    filled.follow(filled.send(*(("c", n, n) for n in range(5))))
    told = typed("lineage", "silver.events", "partition=0").stdout
    assert told.startswith("8 rows are meant; the first 5 follow.")
    assert told.count("  commit ") == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("silver.event",), "Did you mean silver.events"),
        (("silver.events", "k"), "column=value"),
        (("silver.events", "=a"), "column=value"),
        (("silver.events", "k=nobody"), "has no row with k=nobody"),
        (("silver.events", "x=1"), "has no column"),
        (("k=a",), "penstock lineage TABLE k=a"),
        (("silver.events", "k=a", "--emit"), "only a table"),
        (("silver.events", "k=a", "--svg", "x.svg"), "only a table"),
        (("late.gold_sums", "k=a"), "no data yet"),
    ],
)
def test_what_makes_no_sense_is_said_with_what_to_type(typed, filled, words, said):
    told = typed("lineage", *words)
    assert isinstance(told.exception, UsageError)
    assert said in str(told.exception)
    assert told.exception.remedy


def test_before_anything_is_registered_it_is_said(typed):
    assert isinstance(typed("lineage").exception, NotRunning)


def test_tables_are_shown_as_a_tree_and_as_json(typed, filled):
    assert typed("lineage").stdout.splitlines() == [
        "bronze.events  topic events",
        "└─ silver.events  rows, s1",
        "   └─ gold.sums  window, g1",
    ]
    told = json.loads(typed("lineage", "silver.events", "--json").stdout)
    assert [t["name"] for t in told["tables"]] == ["bronze.events", "silver.events", "gold.sums"]
    assert "made from\n└─ bronze.events" in typed("lineage", "silver.events").stdout


def test_a_table_may_be_spelled_as_in_a_query(typed, filled, tmp_path):
    wanted = typed("lineage", "gold.sums").stdout
    assert typed("lineage", "GOLD.Sums").stdout == wanted
    assert "1 event " in typed("lineage", "GOLD.Sums", "--emit").stderr
    file = tmp_path / "one.svg"
    typed("lineage", "GOLD.Sums", "--svg", str(file))
    assert "asked" in file.read_text().partition("</style>")[2]
    version = filled.gold.live.version
    told = typed("lineage", f"gold.sums@version:{version}", "k=a")
    assert told.stdout.startswith(f"gold.sums@version:{version}\n")
    early = typed("lineage", "gold.sums@version:0", "k=a").exception
    assert isinstance(early, UsageError)


def test_a_picture_is_written(typed, filled, tmp_path):
    file = tmp_path / "tables.svg"
    told = typed("lineage", "gold.sums", "--svg", str(file))
    assert told.exit_code == 0
    assert told.stdout == ""
    assert "3 tables" in told.stderr
    ElementTree.parse(file)
    refused = typed("lineage", "--svg", str(tmp_path / "no" / "folder.svg"))
    assert isinstance(refused.exception, EnvironmentProblem)


def test_one_event_per_live_table(typed, filled):
    filled.declare({"name": "gold.idle", "kind": "group", "inputs": {}, "revision": None})
    told = typed("lineage", "--emit")
    assert told.exit_code == 0
    assert "3 events" in told.stderr
    file = filled.settings.home / "lineage" / "events.jsonl"
    names = [json.loads(line)["job"]["name"] for line in file.read_text().splitlines()]
    assert names == ["bronze.events", "silver.events", "gold.sums"]
    assert "1 event to" in typed("lineage", "gold.sums", "--emit").stderr
    idle = typed("lineage", "gold.idle", "--emit")
    assert isinstance(idle.exception, UsageError)


def test_the_ledger_is_told_in_words_and_as_json(typed, filled):
    words = typed("ledger")
    assert words.exit_code == 0
    assert "Raw data is kept once, in bronze:" in words.stdout
    assert "3 rows" in words.stdout
    assert "No table exists more than once." in words.stdout
    assert "states are unknown" in words.stderr
    told = json.loads(typed("ledger", "--json").stdout)
    assert told["states_known"] is False
    assert told["totals"]["raw_rows"] == 3
    silver = next(li for li in told["lines"] if li["table"] == "silver.events")
    assert (silver["revision"], silver["state"], silver["rows"]) == ("s1", "unknown", 3)


def test_copies_are_told_where_there_are_some(typed, filled):
    other = filled.writer("silver.events", "s2", filled.silver.schema, live=False)
    filled.follow(filled.send(("a", 1, 0)), to=other)
    told = typed("ledger", "silver.events").stdout
    assert "silver.events exists 2 times" in told
    assert "bronze" not in told
    assert "No table" not in told
