"""Processes are recognised after crashes and reboots, and leave nothing behind when stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.platform.process import PidFile, Recorded, birth_of, memory_of, spawn, stop

FAMILY = """
import subprocess, sys, time
sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
child = subprocess.Popen(sleeper)
stranger = subprocess.Popen(sleeper, start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


class Started:
    """Starts Python programs as services and makes sure that none outlives its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[Recorded] = []

    def __call__(self, program: str) -> Recorded:
        log = self.folder / f"log-{len(self.all)}"
        process = spawn([sys.executable, "-c", program], log=log, cwd=self.folder, env=os.environ)
        recorded = Recorded(process.pid, birth_of(process.pid) or "")
        self.all.append(recorded)
        deadline = time.monotonic() + 20
        while "ready" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        return recorded


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    for recorded in started.all:
        stop(recorded, grace=0.1)


def test_a_process_is_recognised_by_pid_and_birth(start: Started) -> None:
    recorded = start("print('ready', flush=True); import time; time.sleep(60)")
    assert recorded.is_running()
    assert [p.pid for p in recorded.members()] == [recorded.pid]


def test_the_same_number_born_at_another_time_is_a_stranger() -> None:
    recorded = Recorded(os.getpid(), "another-boot:123")
    assert not recorded.is_running()
    assert recorded.members() == []
    assert stop(recorded, grace=0.1)  # touches nobody: this test is still running


def test_a_dead_or_zombie_process_is_not_running() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    birth = birth_of(process.pid)
    while birth_of(process.pid) is not None:  # ends, but nobody has waited for it: a zombie
        time.sleep(0.01)
    assert psutil.pid_exists(process.pid)
    assert not Recorded(process.pid, birth or "x").is_running()
    process.wait()
    assert birth_of(process.pid) is None


def test_stopping_takes_the_whole_family(start: Started) -> None:
    recorded = start(FAMILY)
    members = recorded.members()
    assert len(members) == 3  # itself, a child, a child that made a session of its own
    assert stop(recorded, grace=5)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in members)


def test_children_of_a_killed_leader_are_found_by_their_session(start: Started) -> None:
    recorded = start(FAMILY)
    family = recorded.members()
    os.kill(recorded.pid, signal.SIGKILL)
    while recorded.is_running():
        time.sleep(0.01)
    left = recorded.members()
    assert len(left) == 1  # the one that made its own session is out of sight, and out of reach
    stop(recorded, grace=5)
    assert recorded.members() == []
    for process in family:
        if process.is_running():
            process.kill()


def test_who_ignores_the_request_is_killed(start: Started) -> None:
    recorded = start(DEAF)
    began = time.monotonic()
    assert not stop(recorded, grace=0.3)
    assert not recorded.is_running()
    assert time.monotonic() - began < 15


def test_the_log_is_private_and_kept_across_starts(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.log"
    for word in ("first", "second"):
        spawn(["echo", word], log=log, cwd=tmp_path, env=os.environ).wait()
    assert log.read_text() == "first\nsecond\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_pid_files_survive_nonsense(tmp_path: Path) -> None:
    file = PidFile(tmp_path / "run" / "a.pid")
    assert file.read() is None
    file.write(Recorded(1, "x", "y"))
    assert file.read() == Recorded(1, "x", "y")
    for text in ("", "{", '{"pid": 1}', "[]"):
        file.path.write_text(text)
        assert file.read() is None


def test_memory_is_counted() -> None:
    assert memory_of([psutil.Process()]) > 2**20
