"""What the commands about releases take, and what they say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import release
from penstock.errors import UsageError


@pytest.fixture(autouse=True)
def _no_catalogue(monkeypatch) -> None:
    """Nothing is told in the home of whoever runs the tests."""
    monkeypatch.setattr(release, "announce_swap", lambda *_: None)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, dict[str, Any]]]:
    """What releases were asked for; nothing is done."""
    found: list[tuple[str, dict[str, Any]]] = []

    def note(verb: str) -> Any:
        return lambda table, **given: found.append((verb, given)) or {"tables": [], "dropped": []}

    made = SimpleNamespace(**{verb: note(verb) for verb in ("promote", "rollback", "abort")})
    monkeypatch.setattr(release, "releases_of", lambda **_: made)
    return found


SWAPPED = {
    "tables": [{"table": "gold.x", "from": "x1", "to": "x2", "version": 7, "changed": 1}],
    "held_seconds": 0.1, "prepared_seconds": 0.2,
}  # fmt: skip


def said(monkeypatch, verb: str, told: dict[str, Any]) -> str:
    made = SimpleNamespace(**{verb: lambda *_, **__: told})
    monkeypatch.setattr(release, "releases_of", lambda **_: made)
    return typed(getattr(release, verb), "gold.x", "--why", "x").output


def test_what_was_promoted_says_how_to_go_back_and_what_was_done_before_does_not(monkeypatch):
    assert "stay warm" in said(monkeypatch, "promote", SWAPPED)
    before = {"tables": SWAPPED["tables"], "done": {"at": "noon", "who": "me"}}
    told = said(monkeypatch, "promote", before)
    assert "nothing was done" in told
    assert "stay warm" not in told, "it may be retired by now"


@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_a_table_that_stays_held_is_told(monkeypatch, verb):
    table = {**SWAPPED["tables"][0], "still_held": "me: I am looking at it"}
    told = said(monkeypatch, verb, {**SWAPPED, "tables": [table]})
    assert "gold.x is still held (me: I am looking at it)" in told
    assert "penstock release gold.x" in told


def typed(command: Any, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("keep", ["999999999 days", "9999999999 days", "long"])
def test_an_old_revision_is_not_kept_for_longer_than_can_be_told(asked, keep):
    told = typed(release.promote, "--why", "x", "--keep-warm", keep)
    assert isinstance(told.exception, UsageError)
    assert "--keep-warm" in told.exception.message
    assert asked == []


@pytest.mark.parametrize("verb", ["promote", "rollback", "abort"])
@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_release(asked, verb, name):
    """Of a variable that was not set: all tables are not meant."""
    why = () if verb == "abort" else ("--why", "x")
    told = typed(getattr(release, verb), *why, "--release", name)
    assert isinstance(told.exception, UsageError)
    assert "--release is empty" in told.exception.message
    assert asked == []
