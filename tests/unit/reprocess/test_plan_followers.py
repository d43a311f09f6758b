"""What a plan says of those who follow a live table, and of what it adds; without Spark."""

from __future__ import annotations

import json
import types
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.airflow import tell
from penstock.cli.change import _show_change
from penstock.errors import EnvironmentProblem
from penstock.model import Rows, changelog, table
from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.reprocess import plan
from penstock.reprocess.followers import Followers, in_words
from penstock.runtime.delta.writer import revision_path
from penstock.runtime.registry import Revision
from penstock.settings import Settings

_NOTE = {"kind": "notification", "table": "gold.a", "name": "ring", "to": "k"}
_TOPIC = {"kind": "changelog", "table": "gold.a", "topic": "out.gold.a", "format": "json"}
_OTHER = {"kind": "events", "table": "gold.b", "topic": "out.b"}


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "project", tmp_path / "home")


def _register(settings: Settings, *published: dict[str, str]) -> None:
    settings.home.mkdir(parents=True)
    settings.manifest.write_text(json.dumps({"tables": [], "published": published}))


def test_what_is_published_or_would_be_and_marts_and_exports_follow(settings):
    _register(settings, _NOTE, _OTHER)
    followers = Followers(settings, [_TOPIC, _OTHER], {"gold.a": ["days"]})
    assert followers.of("gold.a") == {
        "changelog": ["out.gold.a"],
        "notification": ["ring"],
        "marts": ["days"],
        "exports": ["duckdb", "clickhouse"],
    }
    assert followers.of("gold.b") == {"events": ["out.b"], "exports": ["duckdb", "clickhouse"]}
    assert in_words(followers.of("gold.b")) == "events out.b; exports duckdb, clickhouse"


def test_only_tables_that_the_settings_name_are_exported(settings):
    silver = replace(settings, export_tables=("silver.*",))
    assert Followers(settings, [], {}).of("silver.a") == {}
    assert in_words({}) == "nothing outside the streams"
    assert list(Followers(silver, [], {}).of("silver.a")) == ["exports"]


def test_a_list_of_tables_that_cannot_be_read_is_not_taken_for_an_empty_one(settings):
    settings.home.mkdir(parents=True)
    settings.manifest.write_text("{")
    with pytest.raises(EnvironmentProblem, match="cannot be read"):
        Followers(settings, [], {})


@table("gold.a", inputs={"i": "silver.a"}, kind=Rows(), keys=("k",))
def _a(i):
    return i


_SCHEMA = {"fields": [{"name": "k", "type": "long"}]}


@pytest.fixture
def changed(settings, monkeypatch):
    """A plan of one changed table with three live rows, no dbt project and no manifest."""
    name = TableName.parse("gold.a")
    schema = types.SimpleNamespace(json=lambda: json.dumps(_SCHEMA))
    out = changelog(_a).describe()
    found = types.SimpleNamespace(
        catalog=Catalog(tables={name: _a}),
        revisions={name: "new"},
        schemas={name: schema},
        published=[out],
        broken=[],
    )
    monkeypatch.setattr(plan, "_tree", lambda session, settings: found)
    declared = {"schema": _SCHEMA, "meaning": _a.describe()}
    live = Revision("gold.a", "old", "live", "bundle", {}, declared)
    path = revision_path(settings.warehouse, name, "old")
    path.mkdir(parents=True)
    write_deltalake(str(path), pa.table({"k": [1, 2]}))
    write_deltalake(str(path), pa.table({"k": [3]}), mode="append")
    registry = types.SimpleNamespace(revisions=lambda states: [live])
    (change,) = plan.build_plan(None, settings, registry).changes
    return change


def test_a_plan_says_who_follows_and_how_many_rows_are_added(changed, capsys):
    assert changed.as_dict()["followed_by"] == {
        "changelog": ["out.gold.a"],
        "exports": ["duckdb", "clickhouse"],
    }
    assert (changed.adds_rows, changed.adds_bytes > 0) == (3, True)
    _show_change(changed, diff=False)
    shown = capsys.readouterr().out
    assert "  followed by  changelog out.gold.a; exports duckdb, clickhouse\n" in shown
    assert "  adds         about 3 rows, " in shown


def test_a_log_without_statistics_tells_bytes_only(settings, changed, capsys):
    path = revision_path(settings.warehouse, TableName.parse("gold.a"), "old")
    for commit in (path / "_delta_log").glob("*.json"):
        told = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in told:
            action.get("add", {}).pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, told)))
    running = Revision("gold.a", "old", "live", "bundle", {})
    rows, size = plan._held(settings, TableName.parse("gold.a"), running)
    assert (rows, size) == (None, changed.adds_bytes)
    _show_change(replace(changed, adds_rows=rows, adds_bytes=900), diff=False)
    assert "  adds         about 900 B, as the live" in capsys.readouterr().out


def test_nothing_is_added_beside_a_table_that_was_never_live(changed, capsys):
    _show_change(replace(changed, live=None, adds_rows=None), diff=False)
    assert "  adds         not known: no revision of it is live\n" in capsys.readouterr().out


def test_the_page_of_an_approval_says_who_follows(changed):
    told = tell.plan({"changes": [changed.as_dict()]})
    assert "  - followed by changelog out.gold.a; exports duckdb, clickhouse" in told.splitlines()
