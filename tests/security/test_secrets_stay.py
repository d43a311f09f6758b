"""Secrets are in 0600 files and nowhere else: not in a log, not on a command line."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from penstock.platform.secrets import secret_names
from penstock.platform.stack import Stack

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def secrets(stack: Stack) -> dict[str, bytes]:
    return {name: stack.settings.secret(name).encode() for name in secret_names(stack.spec)}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def test_every_file_that_holds_a_secret_is_private(stack: Stack, secrets: dict[str, bytes]) -> None:
    holders = set()
    for path in _files(stack.settings.home):
        content = path.read_bytes()
        if any(value in content for value in secrets.values()):
            holders.add(path)
            assert path.stat().st_mode & 0o077 == 0, path
    folders = {path.relative_to(stack.settings.home).parts[0] for path in holders}
    assert folders == {"secrets", "etc"}  # and so neither logs, run nor data


def test_folders_are_private(stack: Stack) -> None:
    for name in ("secrets", "etc", "logs", "run", "data"):
        assert (stack.settings.home / name).stat().st_mode & 0o777 == 0o700, name


def test_no_secret_in_any_log(stack: Stack, secrets: dict[str, bytes]) -> None:
    for path in _files(stack.settings.logs):
        content = path.read_bytes()
        assert [name for name, value in secrets.items() if value in content] == [], path
        assert b"storedKey" not in content, path


def test_no_secret_on_any_command_line_or_in_an_environment(
    stack: Stack, secrets: dict[str, bytes]
) -> None:
    seen = 0
    for service in stack.services.values():
        recorded = service.pid_file.read()
        for process in recorded.members() if recorded else []:
            for what in ("cmdline", "environ"):
                content = Path(f"/proc/{process.pid}/{what}").read_bytes()
                assert [n for n, value in secrets.items() if value in content] == [], what
            seen += 1
    assert seen >= 3
    assert psutil.pid_exists(1)


def test_no_secret_in_the_repository(project: Path, secrets: dict[str, bytes]) -> None:
    for folder in ("infra", "penstock", "dags", "spark_jobs", "tests"):
        for path in _files(project / folder):
            content = path.read_bytes()
            assert [name for name, value in secrets.items() if value in content] == [], path


def test_the_argument_file_of_the_format_is_gone(stack: Stack) -> None:
    assert list(stack.settings.home.rglob("format.args")) == []
