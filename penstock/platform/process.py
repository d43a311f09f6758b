"""Processes that outlive the command that started them, and are recognised afterwards.

**How it works.** A service runs in a session of its own, its output in its log file. Its pid file
holds the pid *and when that process was born*: after a crash or a reboot the same number may belong
to a stranger, and a stranger's birth differs. A child that left its parent behind is found by its
session id, which the kernel does not reuse while a member lives.

**What it does not do.** Restart anything: `penstock up` does, when asked.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from penstock.platform.files import private_folder, write_private

__all__ = ["PidFile", "Recorded", "birth_of", "memory_of", "spawn", "stop"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LOG_LIMIT = 32 * 1024 * 1024
_TERM_WAIT = 5.0


@dataclass(frozen=True)
class Recorded:
    """What a pid file says: which process, born when, started with which configuration."""

    pid: int
    birth: str
    config: str = ""

    def is_running(self) -> bool:
        return birth_of(self.pid) == self.birth

    def members(self) -> list[psutil.Process]:
        """Every living process of the service: its session and its descendants.

        Descendants that made a session of their own (Postgres' backends do) are found through
        their parent; orphans through the session. When the leader's number belongs to a stranger
        the session is gone, so nothing is ours.
        """
        if birth_of(self.pid) not in (self.birth, None):
            return []
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                in_session = os.getsid(process.pid) == self.pid
                if (in_session or process.pid == self.pid) and _alive(process):
                    found[process.pid] = process
                    for child in process.children(recursive=True):
                        if _alive(child):
                            found[child.pid] = child
        return list(found.values())


class PidFile:
    """The record of one service's process; absent when it was stopped on purpose."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Recorded | None:
        try:
            return Recorded(**json.loads(self.path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, recorded: Recorded) -> None:
        write_private(self.path, json.dumps(asdict(recorded)))

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


def birth_of(pid: int) -> str | None:
    """When a living process was born, in a form no later process can repeat; None if it is gone.

    On Linux: the boot's id and the kernel's start tick (the wall clock may be set back). A zombie
    counts as gone: it has ended and only waits to be asked how.
    """
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if not _alive(process):
            return None
        if not _BOOT_ID.exists():
            return f"{process.create_time():.2f}"
        # Fields are counted after the command's closing bracket: a name may hold spaces.
        with suppress(OSError, IndexError):
            tick = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
            return f"{_BOOT_ID.read_text().strip()}:{tick}"
    return None


def _alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def spawn(
    command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, writing to its log, deaf to our terminal."""
    private_folder(log.parent)
    _rotate(log)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    finally:
        os.close(handle)


def _rotate(log: Path) -> None:
    """Keep one older log once it has grown big; only between two starts, never under a writer."""
    if log.is_file() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))


def stop(recorded: Recorded, *, grace: float, with_signal: signal.Signals = signal.SIGTERM) -> bool:
    """End a service: ask its leader, then what is left of it, then kill. True if it left by itself.

    The leader is asked alone first, because it is the one that knows the order in which its
    children must go: a supervisor finishes its batch before its JVM may stop.
    """
    members = recorded.members()
    leaders = [p for p in members if p.pid == recorded.pid]
    _signal(leaders, with_signal)
    _wait(leaders, grace)
    clean = not any(_is_alive(p) for p in leaders)
    rest = _still(recorded, members)
    _signal(rest, signal.SIGTERM)
    _wait(rest, _TERM_WAIT)
    rest = _still(recorded, rest)
    _signal(rest, signal.SIGKILL)
    _wait(rest, _TERM_WAIT)
    return clean


def _still(recorded: Recorded, known: list[psutil.Process]) -> list[psutil.Process]:
    everyone = {p.pid: p for p in [*known, *recorded.members()]}
    return [p for p in everyone.values() if _is_alive(p)]


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return _alive(process)
    return False


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)  # psutil checks that the pid was not reused meanwhile


def _wait(processes: list[psutil.Process], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(_is_alive(p) for p in processes):
        time.sleep(0.05)
    for process in processes:
        with suppress(psutil.Error, psutil.TimeoutExpired):
            process.wait(timeout=0)  # reaps it when it was our own child


def memory_of(processes: list[psutil.Process]) -> int:
    """Bytes a service really takes: shared pages counted once (PSS), else resident size."""
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            full = process.memory_full_info()
            total += getattr(full, "pss", 0) or full.rss
    return total
