"""`penstock reconcile|run|outcomes|quarantine` as they are typed; nothing runs behind them."""

from __future__ import annotations

import json
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from penstock.cli import COMMANDS, cli
from penstock.errors import NotRunning, UsageError
from penstock.settings import Settings


@pytest.fixture
def typed(settings: Settings, monkeypatch):
    """Type a command at a stack that may have a manifest and has no services."""
    monkeypatch.setattr(Settings, "load", classmethod(lambda cls: settings))

    def run(*words: str):
        return CliRunner().invoke(cli, [*words])

    return run


@pytest.fixture
def registered(settings: Settings, typed):
    """The same with one window table and one rows table, both live and both without data."""
    tables = [
        {"name": "silver.a", "kind": "rows", "inputs": {"a": "bronze.a"}, "revision": "1" * 12},
        {
            "name": "gold.b",
            "kind": "window",
            "inputs": {"a": "silver.a"},
            "revision": "2" * 12,
            "size_us": 5_000_000,
            "every_us": 1_000_000,
        },
        {"name": "gold.idle", "kind": "group", "inputs": {"a": "silver.a"}, "revision": None},
    ]
    settings.manifest.parent.mkdir(parents=True, exist_ok=True)
    settings.manifest.write_text(json.dumps({"tables": tables, "broken": []}))
    return typed


@pytest.mark.parametrize("command", ["reconcile", "run", "outcomes", "quarantine"])
def test_help_says_what_it_does_with_examples(typed, command):
    told = typed(command, "--help")
    assert told.exit_code == 0
    assert "Example" in told.stdout
    assert f"penstock {command}" in told.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("reconcile",),
        ("run",),
        ("outcomes",),
        ("quarantine", "list"),
        ("quarantine", "replay"),
        ("quarantine", "expire"),
        ("tables",),
        ("register",),
        ("streams",),
    ],
)
def test_programs_can_ask_for_json(typed, words):
    assert "--json" in typed(*words, "--help").stdout


def test_the_list_of_commands_has_a_line_for_each(typed):
    told = typed("--help").stdout
    for name in COMMANDS:
        if name not in ("supervise", "serve"):  # `penstock up` starts them
            assert f"\n  {name} " in told


def test_replay_says_whose_code_is_used(typed):
    told = " ".join(typed("quarantine", "replay", "--help").stdout.split())
    assert "--with-tree" in told
    assert "the table's running revision stays as it is" in told


def test_a_command_is_loaded_when_it_is_typed_and_not_before():
    """`penstock --help` must not wait for what it does not need."""
    group = cli.get_command(click.Context(cli), "quarantine")
    assert isinstance(group, click.Group)
    assert {"list", "show", "replay", "expire"} <= set(group.commands)


# --- without a platform -------------------------------------------------------------------------
@pytest.mark.parametrize("words", [("reconcile",), ("outcomes",), ("quarantine", "list")])
def test_nothing_registered_is_said_with_the_next_step(typed, words):
    done = typed(*words)
    assert isinstance(done.exception, NotRunning)
    assert done.exception.remedy == "Run `penstock up`."


@pytest.mark.parametrize(
    "words",
    [
        ("reconcile", "gold.nowhere"),
        ("run", "gold.nowhere"),
        ("outcomes", "gold.nowhere"),
        ("quarantine", "list", "gold.nowhere"),
        ("quarantine", "show", "gold.nowhere", "id"),
        ("quarantine", "replay", "gold.nowhere"),
        ("quarantine", "expire", "gold.nowhere"),
        ("outcomes", "gold.idle"),  # declared, but nothing of it is live
    ],
)
def test_a_table_that_is_not_live_is_named(registered, words):
    done = registered(*words)
    assert isinstance(done.exception, UsageError)
    table = next(word for word in words if word.startswith("gold."))
    assert done.exception.message == f"there is no live table {table}."
    assert done.exception.remedy == "See `penstock tables`."


def test_tables_without_data_have_no_outcomes_and_no_quarantine(registered):
    assert json.loads(registered("outcomes", "--json").stdout) == []
    assert registered("outcomes").exit_code == 0
    assert registered("quarantine", "list").stdout == "nothing is in quarantine\n"
    assert json.loads(registered("quarantine", "list", "gold.b", "--json").stdout) == []


def test_a_row_that_is_not_in_quarantine(registered):
    done = registered("quarantine", "show", "silver.a", "a/x/0/1")
    assert isinstance(done.exception, UsageError)
    assert "a/x/0/1 is not in the quarantine of silver.a" in done.exception.message
    assert done.exception.remedy == "See `penstock quarantine list silver.a`."


def test_reconcile_asks_for_tables_with_windows_only(registered, monkeypatch):
    asked = []

    def ask(settings, table, verb, arguments=None, **_):
        asked.append((table, verb))
        return {"late": 3, "results": 2, "changed": 1}

    monkeypatch.setattr("penstock.cli.late.ask", ask)
    told = json.loads(registered("reconcile", "--json").stdout)
    assert asked == [("gold.b", "reconcile")]
    assert told == [{"table": "gold.b", "late": 3, "results": 2, "changed": 1}]


def test_replay_reconciles_what_reads_the_table(registered, monkeypatch):
    asked = []

    def ask(settings, table, verb, arguments=None, **_):
        asked.append((table, verb, arguments))
        if verb == "replay":
            return {"replayed": 1, "still_bad": 1, "asked": 2}
        return {"late": 1, "results": 1, "changed": 1}

    monkeypatch.setattr("penstock.cli.quarantine.ask", ask)
    told = registered("quarantine", "replay", "silver.a", "one", "two").stdout
    assert asked[0] == ("silver.a", "replay", {"ids": ["one", "two"]})
    assert [step[:2] for step in asked[1:]] == [("gold.b", "reconcile")]
    assert "1 of 2 rows replayed into silver.a, 1 are still bad" in told
    assert "reconciled gold.b: 1 rows changed" in told


def test_replay_with_the_tree_brings_its_code_along(registered, settings, project, monkeypatch):
    monkeypatch.setattr(
        Settings, "load", classmethod(lambda cls: replace(settings, project=project))
    )
    asked = []

    def ask(settings, table, verb, arguments=None, **_):
        asked.append(arguments)
        return {"replayed": 0, "still_bad": 0, "asked": 0}

    monkeypatch.setattr("penstock.cli.quarantine.ask", ask)
    assert registered("quarantine", "replay", "silver.a", "--with-tree").exit_code == 0
    (arguments,) = asked
    assert arguments["ids"] is None
    assert arguments["jobs"] == "spark_jobs"
    assert arguments["bundle"].startswith(str(settings.bundles))
