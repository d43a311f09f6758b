"""Jars that several ask for at once are fetched by one of them."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.platform import jars
from penstock.settings import Settings

CONTENT = b"a jar"


@pytest.fixture
def asked(settings: Settings, tmp_path: Path) -> Settings:
    """A project whose lock has one jar, and no jars yet."""
    sources = tmp_path / "project" / "infra" / "jars"
    sources.mkdir(parents=True)
    digest = hashlib.sha256(CONTENT).hexdigest()
    (sources / "jars.lock").write_text(f"{digest}  s3proxy/s3proxy.jar\n")
    return replace(settings, project=tmp_path / "project", jars=tmp_path / "jars")


def test_of_two_that_ask_at_once_one_fetches(
    asked: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, both = [], threading.Barrier(2)

    def retrieve(settings: Settings, part: Path, folders: tuple[str, ...], report: object) -> None:
        fetched.append(folders)
        (part / "s3proxy").mkdir()
        threading.Event().wait(0.3)  # long enough for the other to come and disturb
        (part / "s3proxy" / "s3proxy.jar").write_bytes(CONTENT)

    def ask(_: int) -> bytes:
        both.wait(10)
        return (jars.fetch_optional(asked, "s3proxy") / "s3proxy.jar").read_bytes()

    monkeypatch.setattr(jars, "_retrieve", retrieve)
    with ThreadPoolExecutor(2) as people:
        assert list(people.map(ask, range(2))) == [CONTENT, CONTENT]
    assert fetched == [("s3proxy",)]
    assert jars.fetch_optional(asked, "s3proxy") == asked.jars / "s3proxy"
    assert len(fetched) == 1
