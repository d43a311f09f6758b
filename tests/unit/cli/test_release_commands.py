"""What the commands about releases take, and what they say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import release
from penstock.errors import UsageError


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, dict[str, Any]]]:
    """What releases were asked for; nothing is done."""
    found: list[tuple[str, dict[str, Any]]] = []

    def note(verb: str) -> Any:
        return lambda table, **given: found.append((verb, given)) or {"tables": [], "dropped": []}

    made = SimpleNamespace(**{verb: note(verb) for verb in ("promote", "rollback", "abort")})
    monkeypatch.setattr(release, "releases_of", lambda **_: made)
    return found


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
