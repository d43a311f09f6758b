"""Running a `penstock` command from a task: in a process group of its own, never through a shell.

**How it works.** What the command says on stderr goes line by line into the task's log, what it
prints is its result as JSON. When the task is told to stop, or is timed out, the whole group goes
with it: the Python process, its JVM and its workers.

**What it does not do.** Outlast the task: work that must go on is the supervisor's. If the task's
own process is killed with no chance to act, the command goes on alone; builds have a lock, so that
the retry waits for it (``reprocess/building.py``).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from penstock.modest import give_way
from penstock.settings import Settings

__all__ = ["Answer", "CommandFailed", "CommandRefused", "TaskStopped", "option", "penstock"]

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 3.0  # Airflow itself waits five before it kills
_KEPT_LINES = 20
_NICENESS = 10  # streams must not wait for a task
_ASKED_WRONGLY = {2, 3, 4, 12, 13}  # exit codes that trying again does not change


class CommandFailed(AirflowException):
    """The command failed; trying again may help."""


class TaskStopped(CommandFailed):
    """The task was told to stop, and its command was ended with it: nothing more is begun."""


class CommandRefused(AirflowFailException):
    """The command was asked for something it will not do: no retry."""


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    result: Any  # what it printed, read as JSON; None if it printed nothing
    said: tuple[str, ...]  # its last lines on stderr

    @property
    def reason(self) -> str:
        """What went wrong and what to do: the line that begins with our name, and the next."""
        marks = [n for n, line in enumerate(self.said) if line.startswith("penstock: ")]
        lines = self.said[marks[-1] :][:2] if marks else self.said[-2:]
        return " ".join(line.strip() for line in lines).removeprefix("penstock: ")


def option(name: str, value: object) -> str:
    """An option with its value in one argument: a text that begins with a dash stays a text."""
    return f"--{name}={value}"


def penstock(
    *arguments: str,
    accept: Container[int] = (0,),
    as_json: bool = True,
    settings: Settings | None = None,
) -> Answer:
    """Run `penstock <arguments> --json` and wait for it.

    Args:
        accept: exit codes that are an answer, not a failure.
        as_json: add `--json` at the end; else it is among the arguments.

    Raises:
        CommandRefused: it was asked wrongly; its own words say what to do.
        CommandFailed: anything else went wrong.
    """
    settings = settings or Settings.load()
    shown = " ".join(arguments)
    _log.info("penstock %s", shown)
    with _started(
        [sys.executable, "-m", "penstock.cli", *arguments, "--json"], settings
    ) as process:
        answer = _followed(process)
    if answer.code in accept:
        return answer
    error = CommandRefused if answer.code in _ASKED_WRONGLY else CommandFailed
    raise error(answer.reason or f"penstock {arguments[0]} ended with exit code {answer.code}")


@contextmanager
def _started(command: list[str], settings: Settings) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive this block, whatever ends the block."""
    process = subprocess.Popen(
        command,
        cwd=settings.project,
        env=settings.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        give_way(_NICENESS, process.pid)  # a session of its own does not inherit it
        with _ended_with_the_task(process):
            yield process
    finally:
        _end(process)


@contextmanager
def _ended_with_the_task(process: subprocess.Popen[str]) -> Iterator[None]:
    """SIGTERM to the task, which is how Airflow stops one, ends the group and the task."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals arrive in the main thread only; the block's end still ends the process
        return

    def told(number: int, frame: object) -> None:
        _end(process)
        raise TaskStopped("the task was told to stop; the command was ended with it")

    before = signal.signal(signal.SIGTERM, told)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _followed(process: subprocess.Popen[str]) -> Answer:
    """Log what it says while it runs, keep what it prints."""
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    printed: list[str] = []
    readers = [
        threading.Thread(target=_log_lines, args=(process.stderr, said), daemon=True),
        threading.Thread(target=_keep, args=(process.stdout, printed), daemon=True),
    ]
    for reader in readers:
        reader.start()
    while process.poll() is None:  # in short steps: a signal is handled between two of them
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    for reader in readers:
        reader.join(_GRACE_SECONDS)
    text = "".join(printed).strip()
    try:
        result = json.loads(text) if text else None
    except ValueError:
        result = None
        said.append(text[-500:])
    return Answer(process.returncode, result, tuple(said))


def _log_lines(stream: IO[str], said: deque[str]) -> None:
    for line in stream:
        if line.strip():
            said.append(line.rstrip())
            _log.info("%s", line.rstrip())


def _keep(stream: IO[str], printed: list[str]) -> None:
    printed.extend(stream)
