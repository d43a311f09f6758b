"""What is wrong with a machine is said in one sentence, with what to type next."""

from __future__ import annotations

import shutil
import socket
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import EnvironmentProblem
from penstock.platform import doctor, jars
from penstock.platform.java import java_executable
from penstock.platform.ports import require_free
from penstock.platform.service import gist
from penstock.settings import PORTS, Settings

Usage = namedtuple("Usage", "total used free")


def fake_java(folder: Path, says: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_a_wrong_or_missing_java_is_named(settings: Settings, tmp_path: Path) -> None:
    old = fake_java(tmp_path / "jdk8", 'openjdk version "1.8.0_402"')
    with pytest.raises(EnvironmentProblem, match=r"Java 17 is needed; .*jdk8.* is version 8") as e:
        java_executable(replace(settings, java_home=old))
    assert "JAVA_HOME" in e.value.remedy
    with pytest.raises(EnvironmentProblem, match="no bin/java in it"):
        java_executable(replace(settings, java_home=str(tmp_path / "none")))
    right = fake_java(tmp_path / "jdk17", 'openjdk version "17.0.15" 2025-04-15')
    assert java_executable(replace(settings, java_home=right)).parent.parent.name == "jdk17"


def test_no_java_at_all(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentProblem, match="no Java was found"):
        doctor.require_startable(replace(settings, java_home=None), ["kafka"])


def test_too_little_disk_stops_up_before_anything_starts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**10, 10**10, 10**9))
    with pytest.raises(EnvironmentProblem, match=r"0\.9 GB free .* 3 GB are needed") as caught:
        doctor.require_startable(settings, ["postgres"])
    assert "PENSTOCK_HOME" in caught.value.remedy


def test_half_fetched_jars_are_noticed(settings: Settings, tmp_path: Path) -> None:
    half = replace(settings, jars=tmp_path / "jars")
    (half.jars / "kafka").mkdir(parents=True)
    (half.jars / "kafka" / "some.jar").touch()
    assert not jars.is_complete(half)
    with pytest.raises(EnvironmentProblem, match="half fetched") as caught:
        jars.require(half, "kafka")
    assert "make setup" in caught.value.remedy


def test_a_taken_port_names_who_has_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentProblem, match=rf"Kafka needs port {port}, which .+ \(pid"):
            require_free(port, "Kafka")
    require_free(port, "Kafka")


def test_the_port_check_tells_ours_from_a_stranger_s(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offset = taken.getsockname()[1] - PORTS["kafka"]
        checks = doctor.examine(replace(settings, port_offset=offset))
    taken_ones = [c for c in checks if c.name == "port" and c.outcome == "fail"]
    assert any("(kafka) is taken by" in c.message for c in taken_ones)
    assert all("PENSTOCK_PORT_OFFSET" in c.remedy for c in taken_ones)


def test_an_unfinished_or_outdated_set_up_is_told_apart(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    unfinished = next(c for c in doctor.examine(settings) if c.name == "set-up")
    assert (unfinished.outcome, "unfinished" in unfinished.message) == ("fail", True)
    (tmp_path / "setup.stamp").write_text("0 1 2\n")
    outdated = next(c for c in doctor.examine(settings) if c.name == "set-up")
    assert "out of date" in outdated.message
    assert "make setup" in outdated.remedy


def test_a_package_of_another_version_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: "0.0" if name == "duckdb" else "x")
    check = next(c for c in doctor.examine(settings) if c.name == "packages")
    assert check.outcome == "fail"
    assert "make setup" in check.remedy


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("INFO up\nERROR Address already in use\n\tat java.lang\n", "ERROR Address already in use"),
        ("Traceback (most recent call last):\n  File x\nValueError: no\n", "ValueError: no"),
        ("one\ntwo\n\n", "two"),
        ("", ""),
    ],
)
def test_the_gist_of_a_log(tmp_path: Path, text: str, wanted: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert gist(log) == wanted
    assert gist(log, since=len(text)) == ""
