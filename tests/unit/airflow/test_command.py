"""Commands run from tasks: no shell, their words in the log, and nothing left when a task ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from penstock.airflow import command
from penstock.airflow.command import (
    CommandFailed,
    CommandRefused,
    TaskStopped,
    _followed,
    _started,
    option,
    penstock,
)
from penstock.settings import Settings
from tests.live import wait_for

# Says two lines, has a child of its own, prints JSON, and stays for as long as it is told.
PROGRAM = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("one", file=sys.stderr, flush=True)
print(child.pid, file=sys.stderr, flush=True)
time.sleep(float(sys.argv[1]))
print('{"done": true}')
sys.exit(int(sys.argv[2]))
"""


def run(settings: Settings, seconds: float, code: int):
    settings.home.mkdir(parents=True, exist_ok=True)
    return _started([sys.executable, "-c", PROGRAM, str(seconds), str(code)], settings)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_result_and_words_and_no_child_left(settings: Settings, caplog) -> None:
    caplog.set_level("INFO")
    with run(settings, 0, 3) as process:
        answer = _followed(process)
    assert (answer.code, answer.result, answer.said[0]) == (3, {"done": True}, "one")
    assert "one" in caplog.text
    wait_for("its child to be gone", lambda: gone(int(answer.said[1])), 20)


def test_a_task_that_is_told_to_stop_takes_its_command_along(settings: Settings) -> None:
    children: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    others = {p.pid for p in psutil.Process().children(recursive=True)}  # a session's Spark, say

    def fresh() -> list[int]:
        found = (p.pid for p in psutil.Process().children(recursive=True))
        return [pid for pid in found if pid not in others]

    def tell() -> None:
        wait_for("two processes", lambda: len(fresh()) >= 2, 30)
        # Without this the signal would be the end of the tests, not of the task.
        wait_for("the task to listen", lambda: signal.getsignal(signal.SIGTERM) is not before, 30)
        children.extend(fresh())
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(TaskStopped, match="told to stop"), run(settings, 600, 0) as process:
        _followed(process)
    assert time.monotonic() - began < 60
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(children) >= 2
    for pid in children:
        wait_for("all to be gone", lambda pid=pid: gone(pid), 20)


def test_a_command_that_cannot_be_made_to_give_way_is_not_left_behind(
    settings: Settings, monkeypatch
) -> None:
    started: list[int] = []

    def refused(niceness: int, pid: int) -> None:
        started.append(pid)
        raise PermissionError("not here")

    monkeypatch.setattr(command, "give_way", refused)
    with pytest.raises(PermissionError), run(settings, 600, 0):
        pass
    assert gone(*started)


def test_an_error_in_the_task_ends_the_command(settings: Settings) -> None:
    with pytest.raises(KeyError), run(settings, 600, 0) as process:
        raise KeyError("a timeout, say")
    assert gone(process.pid)


def test_the_commands_own_words_are_the_reason(settings: Settings) -> None:
    """A stack without a manifest: the real command, really refused."""
    settings.home.mkdir(parents=True)
    with pytest.raises(CommandFailed, match=r"nothing is registered yet\. Run `penstock up`\."):
        penstock("reconcile", settings=settings)


def test_asked_wrongly_is_not_tried_again(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    settings.manifest.write_text('{"tables": [], "broken": []}')
    with pytest.raises(CommandRefused, match="no live table"):
        penstock("hold", "gold.none", option("why", "--help"), settings=settings)


def test_a_text_stays_a_text(settings: Settings, tmp_path: Path) -> None:
    """Nothing in a value is an option, an expansion or a second command."""
    marker = tmp_path / "marker"
    values = ["--help", f"; touch {marker}", f"$(touch {marker})", "a b", "'", "`id`", "-x"]
    program = "import sys, json; print(json.dumps(sys.argv[1:]))"
    settings.home.mkdir(parents=True)
    asked = [option("why", value) for value in values]
    with _started([sys.executable, "-c", program, *asked], settings) as process:
        answer = _followed(process)
    assert answer.result == [f"--why={value}" for value in values]
    assert not marker.exists()


def test_no_task_has_a_shell(project: Path) -> None:
    for path in [*(project / "dags").glob("*.py"), *(project / "penstock/airflow").glob("*.py")]:
        text = path.read_text()
        for word in ("shell=True", "os.system", "BashOperator", "task.bash", "os.popen"):
            assert word not in text, (path, word)
