"""Work that can wait gives way, whatever groups the scheduler makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.modest import give_way

NICENESS = "import os; print(os.nice(0))"
GROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
grouped = pytest.mark.skipif(
    not GROUPS.is_file() or GROUPS.read_text().strip() != "1", reason="no groups of sessions here"
)


def nicer() -> int:
    """Than this process is by now: a test before may have made it give way."""
    return max(9, os.nice(0) + 1)


def begun(*, session: bool) -> subprocess.Popen:
    waits = [sys.executable, "-c", "input()"]
    group = None if session else 0
    return subprocess.Popen(
        waits, stdin=subprocess.PIPE, start_new_session=session, process_group=group
    )


def group_of(pid: int) -> str:
    """How nice a process's group is; nothing for one that was never given a group (no setsid)."""
    return Path(f"/proc/{pid}/autogroup").read_text().partition("nice")[2].strip()


@pytest.fixture
def own():
    process = begun(session=True)
    yield process
    process.communicate(b"\n")


@pytest.fixture
def ours():
    process = begun(session=False)
    yield process
    process.communicate(b"\n")


def test_a_process_and_what_it_starts_are_nice():
    told = f"from penstock.modest import give_way; give_way(7); {NICENESS}"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert int(run.stdout) == max(7, os.nice(0))


def test_niceness_is_never_taken_back(own):
    give_way(nicer(), own.pid)
    give_way(3, own.pid)
    assert os.getpriority(os.PRIO_PROCESS, own.pid) == nicer()


@grouped
def test_a_session_of_its_own_is_as_nice_as_its_leader(own):
    give_way(nicer(), own.pid)
    assert group_of(own.pid) == str(nicer())


@grouped
def test_a_session_that_is_somebody_elses_is_left_alone(ours):
    before = group_of(ours.pid)
    give_way(nicer(), ours.pid)
    assert os.getpriority(os.PRIO_PROCESS, ours.pid) == nicer()
    assert group_of(ours.pid) == before


def test_a_process_that_is_gone_is_no_trouble():
    process = begun(session=True)
    process.communicate(b"\n")
    give_way(nicer(), process.pid)
