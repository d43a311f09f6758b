"""`penstock publish` without any service: what it says of what there is."""

from __future__ import annotations

import json
import os
import time

import pytest
from click.testing import CliRunner

from penstock.cli.publish import publish
from penstock.errors import UsageError
from penstock.publish.run import go_on_wish
from penstock.publish.state import Told

PUBLISHED = [
    {"kind": "changelog", "table": "gold.a", "topic": "out.a"},
    {"kind": "events", "table": "gold.b", "topic": "out.b"},
]


@pytest.fixture
def home(settings, monkeypatch):
    settings.home.mkdir(parents=True)
    monkeypatch.setenv("PENSTOCK_HOME", str(settings.home))
    settings.manifest.write_text(json.dumps({"tables": [], "published": PUBLISHED}))
    return settings


def test_what_is_declared_and_not_begun(home):
    result = CliRunner().invoke(publish, ["--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert not told["running"]
    assert [one["state"] for one in told["publications"]] == ["not begun", "not begun"]


def test_trouble_is_told_by_the_exit_code(home):
    said = [
        {"kind": "events", "table": "gold.b", "target": "out.b", "state": "parked",
         "error": "it lost its place", "behind": 3}
    ]  # fmt: skip
    Told(os.getpid(), time.time(), publications=said).write(home)
    result = CliRunner().invoke(publish, [])
    assert result.exit_code == 1
    assert "it lost its place" in result.stdout
    assert "not begun" in result.stdout


def test_only_what_cannot_find_its_place_is_told_to_go_on(home):
    CliRunner().invoke(publish, ["--go-on", "out.b"], catch_exceptions=False)
    assert go_on_wish(home, "out.b").exists()
    for target in ("out.a", "../../etc/passwd"):
        with pytest.raises(UsageError):
            CliRunner().invoke(publish, ["--go-on", target], catch_exceptions=False)
