"""Events that leave by themselves: they are told, or it is said why not; nothing else happens."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import announcing, platform, release, tables
from penstock.lineage import announce as announcing_thread
from penstock.lineage.announce import announce
from penstock.settings import Settings

ENTRIES: list[dict[str, Any]] = [
    {"name": "bronze.a", "kind": "stream", "topic": "a"},
    {"name": "silver.a", "kind": "rows", "inputs": {"a": "bronze.a"}, "revision": "s1"},
    {"name": "late.silver_a", "kind": "late", "of": "silver.a"},
    {"name": "gold.a", "kind": "group", "inputs": {"a": "silver.a"}, "revision": None},
]
SWAPPED = {"tables": [{"table": "silver.a"}], "held_seconds": 0.1, "prepared_seconds": 0.2}


@pytest.fixture
def home_of(settings: Settings, tmp_path, monkeypatch):
    """A stack without services, whose project file has what a test writes into it."""

    def make(line: str = "") -> Settings:
        (tmp_path / "pyproject.toml").write_text(f"[tool.penstock]\n{line}\n")
        mine = replace(settings, project=tmp_path)
        monkeypatch.setattr(Settings, "load", classmethod(lambda cls: mine))
        declare(mine, ENTRIES)
        return mine

    return make


def declare(settings: Settings, entries: list[dict[str, Any]]) -> None:
    settings.home.mkdir(exist_ok=True)
    settings.manifest.write_text(json.dumps({"tables": entries, "broken": []}))


def told(settings: Settings) -> list[str]:
    file = settings.home / "lineage" / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["job"]["name"] for line in lines]


def swap(monkeypatch, verb: str, result: dict[str, Any]) -> Result:
    made = SimpleNamespace(**{verb: lambda *_, **__: result})
    monkeypatch.setattr(release, "releases_of", lambda **_: made)
    return CliRunner().invoke(getattr(release, verb), ["silver.a", "--why", "x", "--json"])


# --- promote, rollback, backfill --all ----------------------------------------------------------
@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_a_swap_is_told(home_of, monkeypatch, verb):
    settings = home_of()
    done = swap(monkeypatch, verb, SWAPPED)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == SWAPPED
    assert told(settings) == ["silver.a"]


def test_a_table_that_is_built_anew_is_told(home_of, monkeypatch):
    settings = home_of()
    monkeypatch.setattr("penstock.cli.backfilling.backfill_all", lambda *_, **__: SWAPPED)
    CliRunner().invoke(release.backfill, ["silver.a", "--all", "--why", "x"])
    assert told(settings) == ["silver.a"]


def test_a_promotion_that_was_done_before_is_not_told_again(home_of, monkeypatch):
    settings = home_of()
    swap(monkeypatch, "promote", {**SWAPPED, "done": {"at": "noon", "who": "me"}})
    assert told(settings) == []


def test_a_server_that_is_away_is_a_warning_without_its_password(home_of, monkeypatch):
    home_of('openlineage_url = "http://me:s3cret@127.0.0.1:9/?key=s3cret"')
    done = swap(monkeypatch, "promote", SWAPPED)
    assert done.exit_code == 0
    assert json.loads(done.stdout) == SWAPPED
    assert "127.0.0.1:9" in done.stderr
    assert "penstock lineage --emit" in done.stderr
    assert "s3cret" not in done.output


def test_a_full_disk_is_a_warning(home_of, monkeypatch):
    settings = home_of()
    (settings.home / "lineage").write_text("no folder")
    done = swap(monkeypatch, "rollback", SWAPPED)
    assert done.exit_code == 0
    assert "cannot be kept" in done.stderr


# --- register, up -------------------------------------------------------------------------------
def test_what_is_live_since_then_is_told(home_of):
    settings = home_of()
    before = announcing.live_before(settings)
    announcing.announce_new(settings, before)
    assert told(settings) == []
    declare(settings, [*ENTRIES[:1], {**ENTRIES[1], "revision": "s2"}, *ENTRIES[2:]])
    announcing.announce_new(settings, before)
    assert told(settings) == ["silver.a"]


def test_of_a_stack_that_was_never_up_everything_is_new(home_of):
    settings = home_of()
    settings.manifest.unlink()
    before = announcing.live_before(settings)
    declare(settings, ENTRIES)
    announcing.announce_new(settings, before)
    assert told(settings) == ["bronze.a", "silver.a"]


def test_register_tells_what_it_made_live(home_of, monkeypatch):
    settings = home_of()
    live = [*ENTRIES[:-1], {**ENTRIES[-1], "revision": "g1"}]

    def registered(*_: Any) -> SimpleNamespace:
        declare(settings, live)
        return SimpleNamespace(broken=[])

    monkeypatch.setattr("penstock.runtime.declared.register.register", registered)
    monkeypatch.setattr("penstock.spark.session.build_session", lambda *_, **__: _Nothing())
    monkeypatch.setattr("penstock.runtime.registry.Registry.create", lambda _: None)
    monkeypatch.setattr(tables, "_provision", lambda _: [])
    done = CliRunner().invoke(tables.register, ["--json"])
    assert done.exit_code == 0, done.output
    assert told(settings) == ["gold.a"]


def test_up_tells_what_the_supervisor_made_live(home_of, monkeypatch):
    """Also when another service does not start: the next `up` finds nothing new."""
    settings = home_of()
    settings.manifest.unlink()

    def start(*_: Any, **__: Any) -> None:
        declare(settings, ENTRIES)
        raise RuntimeError

    made = SimpleNamespace(select=lambda *_: [], settings=settings, up=start)
    monkeypatch.setattr("penstock.platform.stack.Stack", lambda _: made)
    monkeypatch.setattr("penstock.platform.doctor.require_startable", lambda *_: None)
    done = CliRunner().invoke(platform.up, ["--json"])
    assert isinstance(done.exception, RuntimeError)
    assert told(settings) == ["bronze.a", "silver.a"]


class _Nothing:
    def stop(self) -> None:
        return


# --- come what may ------------------------------------------------------------------------------
@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that lets everybody in and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_that_never_answers_holds_nobody_up(home_of, silent):
    settings = home_of(f'openlineage_url = "http://127.0.0.1:{silent}"')
    began = time.monotonic()
    assert "within 0.2 s" in announce(settings, ["silver.a"], patience=0.2)
    assert time.monotonic() - began < 2


def test_an_error_nobody_thought_of_is_named_and_its_text_is_not(home_of, monkeypatch):
    def fail(*_: Any, **__: Any) -> str:
        raise ValueError("s3cret")

    monkeypatch.setattr(announcing_thread, "emit", fail)
    assert announce(home_of(), ["silver.a"]) == "ValueError."
