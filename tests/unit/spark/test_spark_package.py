"""What executors import is what runs here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.spark import session as sessions
from penstock.spark.cluster import ship_package


class Context:
    def __init__(self) -> None:
        self.files: list[str] = []
        self._python_includes: list[str] | None = None

    def addFile(self, path: str) -> None:
        self.files.append(path)


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()


def test_the_archive_is_the_engine_and_not_in_our_own_path(tmp_path: Path) -> None:
    session, before = Session(), list(sys.path)
    ship_package(cast(Any, session), tmp_path)
    (archive,) = session.sparkContext.files
    assert session.sparkContext._python_includes == ["penstock.zip"]
    assert sys.path == before
    look = (
        f"import sys; sys.path.insert(0, {archive!r}); import penstock.model.contract_wire as m; "
        "print(m.__file__)"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert told.stdout.startswith(archive)


def test_what_the_jvm_logs_by_is_there() -> None:
    assert all(path.is_file() for path in (sessions._QUIET, sessions._SERVICE))


def test_what_a_jvm_says_at_its_start_goes_to_a_log(tmp_path: Path, capfd) -> None:
    with sessions._aside(tmp_path / "logs" / "plan.log"):
        subprocess.run(["sh", "-c", "echo greetings >&2"], check=True)
    subprocess.run(["sh", "-c", "echo and a word >&2"], check=True)
    assert (tmp_path / "logs" / "plan.log").read_text() == "greetings\n"
    assert capfd.readouterr().err == "and a word\n"


def test_what_a_jvm_said_is_told_when_it_does_not_start(tmp_path: Path) -> None:
    def start() -> None:
        with sessions._aside(tmp_path / "plan.log"):
            subprocess.run(["sh", "-c", "echo no memory >&2; exit 1"], check=True)

    with pytest.raises(subprocess.CalledProcessError) as told:
        start()
    assert told.value.__notes__ == ["no memory\n"]
