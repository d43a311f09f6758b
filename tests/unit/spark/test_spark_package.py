"""What executors import is what runs here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from penstock.cluster import ship_package


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
