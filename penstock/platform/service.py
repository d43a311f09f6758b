"""The life cycle every service shares: configure, start, ready, provision, stop, status, logs.

A service is stopped, starting, running or dead (it has a pid file but no process). `ensure` brings
it to running from any of them and does nothing when it already is; a running service whose
configuration changed is restarted, so that the files in ``infra`` are what runs.
"""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.errors import PenstockError, ServiceFailed
from penstock.modest import give_way
from penstock.platform.files import private_folder, render, write_private
from penstock.platform.ports import require_free
from penstock.platform.process import PidFile, Recorded, birth_of, memory_of, spawn, stop
from penstock.platform.spec import PlatformSpec, ServiceSpec
from penstock.settings import Settings

__all__ = ["Interrupted", "Report", "Service", "Status", "gist"]

Report = Callable[[str], None]
_TROUBLE = re.compile(r"\b(ERROR|FATAL|SEVERE|PANIC|Exception|Error:|error:|failed|in use)\b")
_CONTINUATION = re.compile(r"^\s+|^\tat |^Caused by|^Traceback|^\s*\^")


class Interrupted(Exception):
    """Not an error: the user pressed ctrl-C while a service was starting."""


@dataclass(frozen=True)
class Status:
    """What `penstock status` shows of a service."""

    name: str
    title: str
    state: str
    pid: int | None
    ports: dict[str, int]
    memory_bytes: int
    detail: str = ""


class Service(ABC):
    """One service of the stack. Sub-classes say how it is configured, started and asked."""

    name: str  # of a copy: with its number
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    niceness: ClassVar[int] = 0  # who may be kept waiting for a core, as the system counts it

    def __init__(self, settings: Settings, spec: PlatformSpec, name: str | None = None) -> None:
        self.name = name or self.name
        self.settings = settings
        self.platform = spec
        self.spec: ServiceSpec = spec.services[self.name]
        self.pid_file = PidFile(settings.run / f"{self.name}.pid")
        self.cancelled = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    # --- what a service says about itself ---------------------------------------------------------
    def files(self) -> Mapping[str, str]:
        """Name -> text of the files it is configured by; they land in ``etc/<service>``."""
        return {}

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line. It never holds a secret: everybody can read it."""

    def environment(self) -> dict[str, str]:
        return self.settings.environment()

    def prepare(self, report: Report) -> None:  # noqa: B027 - most have nothing to prepare
        """Anything needed once before the first start (an initialised data folder)."""

    @abstractmethod
    def ready(self) -> bool:
        """True when it does its work. Asked again and again: "not yet" is False, never an error."""

    def provision(self, report: Report) -> None:  # noqa: B027 - most hold nothing of ours
        """Bring what lives inside it (topics, roles, connectors) to what the spec says."""

    def detail(self) -> str:
        """A word for the status table of a running service."""
        return ""

    # --- folders ----------------------------------------------------------------------------------
    @property
    def etc(self) -> Path:
        return self.settings.home / "etc" / self.name

    @property
    def log(self) -> Path:
        return self.settings.logs / f"{self.name}.log"

    @property
    def cwd(self) -> Path:
        return self.etc

    def port(self) -> int:
        return self.settings.port(self.spec.ports[0])

    def render(self, template: str, **values: object) -> str:
        return render(self.settings, template, values)

    # --- life cycle -------------------------------------------------------------------------------
    def configure(self) -> str:
        """Write the configuration files; their hash."""
        private_folder(self.etc)
        digest = hashlib.sha256()
        for name, text in sorted(self.files().items()):
            write_private(self.etc / name, text)
            digest.update(f"{name}\0{text}\0".encode())
        digest.update("\0".join(self.command()).encode())
        return digest.hexdigest()[:16]

    def ensure(self, report: Report) -> bool:
        """Make it run; False when it already did and nothing changed."""
        config = self.configure()
        recorded = self.pid_file.read()
        if recorded and recorded.is_running():
            if recorded.config == config:
                self._until_ready(report)
                self.provision(report)
                return False
            report("configuration changed, restarting")
            self.stop()
        elif recorded:
            self.stop()  # what a dead leader left behind would hold ports and locks
        self.start(config, report)
        return True

    def start(self, config: str, report: Report) -> None:
        for name in self.spec.ports:
            require_free(self.settings.port(name), self.spec.title)
        self.prepare(report)
        self._check_cancelled()
        report("starting")
        self._log_start = self.log.stat().st_size if self.log.is_file() else 0
        self._process = spawn(self.command(), log=self.log, cwd=self.cwd, env=self.environment())
        pid = self._process.pid
        if self.niceness:
            give_way(self.niceness, pid)
        self.pid_file.write(Recorded(pid, birth_of(pid) or "gone", config))
        self._until_ready(report)
        report("setting up")
        self.provision(report)

    def _until_ready(self, report: Report) -> None:
        deadline = time.monotonic() + self.spec.ready_within
        pause = 0.05
        while not self.ready():
            self._check_cancelled()
            recorded = self.pid_file.read()
            if self._ended() or not (recorded and recorded.is_running()):
                raise self._failure("stopped while starting")
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready after {self.spec.ready_within:.0f} s")
            report("waiting until it answers")
            self.cancelled.wait(pause)
            pause = min(pause * 1.5, 0.5)

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Interrupted(self.name)

    def stop(self) -> bool:
        """End it and what it started; False when there was nothing to end."""
        recorded = self.pid_file.read()
        if recorded is None:
            return False
        found = bool(recorded.members())
        stop(recorded, grace=self.spec.grace, with_signal=self.stop_signal)
        if self._process is not None:
            self._process.poll()
        self.pid_file.clear()
        return found

    def run_once(self, command: Sequence[str], what: str) -> None:
        """Run a set-up step to its end; ctrl-C ends it too.

        Its output is kept only if it fails: such tools are talkative, and Kafka's prints what it
        derived from a password.
        """
        log = self.settings.logs / f"{self.name}-setup.log"
        log.unlink(missing_ok=True)
        process = spawn(command, log=log, cwd=self.etc, env=self.environment())
        recorded = Recorded(process.pid, birth_of(process.pid) or "gone")
        while process.poll() is None:
            if self.cancelled.wait(0.05):
                stop(recorded, grace=3)
                raise Interrupted(self.name)
        if process.returncode != 0:
            raise self._failure(f"could not {what} (exit code {process.returncode})", log)
        log.unlink(missing_ok=True)

    # --- what is seen from outside ----------------------------------------------------------------
    def status(self) -> Status:
        recorded = self.pid_file.read()
        state, detail, pid, memory = "stopped", "", None, 0
        if recorded is not None:
            if recorded.is_running():
                pid, memory = recorded.pid, memory_of(recorded.members())
                state, detail = self._health()
            else:
                state, detail = "dead", f"ended by itself; see {self.log}"
        ports = {name: self.settings.port(name) for name in self.spec.ports}
        return Status(self.name, self.spec.title, state, pid, ports, memory, detail)

    def _health(self) -> tuple[str, str]:
        try:
            if self.ready():
                return "running", self.detail()
        except (PenstockError, OSError) as error:
            return "not ready", str(error)
        return "not ready", f"see {self.log}"

    def _failure(self, what: str, log: Path | None = None) -> ServiceFailed:
        said = gist(log) if log else gist(self.log, since=self._log_start)
        return ServiceFailed(
            f"{self.spec.title} {what}{f': {said}' if said else '.'}",
            remedy=f"The whole log is {log or self.log}; then run `penstock up` again.",
        )


def gist(log: Path, since: int = 0) -> str:
    """The line of a log, after a position, that most likely says what went wrong."""
    try:
        with log.open("rb") as handle:
            handle.seek(since)
            text = handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    plain = [line for line in lines if not _CONTINUATION.match(line)]
    trouble = [line for line in plain if _TROUBLE.search(line)]
    chosen = (trouble or plain or lines or [""])[-1]
    return chosen.strip()[:240]
