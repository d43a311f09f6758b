"""Airflow's components under one small parent: imported once, then forked.

**Purpose.** `airflow standalone` starts five Pythons that each import all of Airflow: half a
minute of two cores and more than a gigabyte. Here it is imported once and the components share
those pages. Its parent also leaves its children behind when it is told to stop; this one takes
them along.

**How it works.** Nothing is done before the forks that could not be shared: no connection is
opened, no thread started. The schema is migrated first, in a fork of its own, and the pool is made
that lets one task at a time start a JVM. A component that ends by itself is started again, after a
pause that doubles.

**What it does not do.** Workers on other machines: this is the embedded Airflow only.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from types import FrameType
from typing import NoReturn

__all__ = ["main"]

_SERVER = ("api-server",)
# Logs are read from the disk they share, so no component serves them over a port of its own.
COMPONENTS: tuple[tuple[str, ...], ...] = (
    _SERVER,
    ("scheduler", "--skip-serve-logs"),
    ("dag-processor",),
    ("triggerer", "--skip-serve-logs"),
)
# What has to be there before they start, each in a fork of its own.
STEPS: tuple[tuple[str, ...], ...] = (
    ("db", "migrate"),
    ("pools", "set", "jvm", "1", "Whatever starts a JVM: two at once do not fit this machine."),
)
_SHARED = (
    "airflow.cli.cli_parser",
    "airflow.cli.commands.db_command",
    "airflow.cli.commands.pool_command",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
    "airflow.api_fastapi.app",
    "airflow.api_fastapi.main",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.dag_processing.manager",
    "airflow.dag_processing.processor",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.providers.standard.operators.python",
    "airflow.providers.standard.decorators.python",
    "airflow.providers.standard.operators.hitl",
    "airflow.providers.openlineage.plugins.listener",
)
_LONGEST_PAUSE = 30.0


class _Family:
    """The running components by pid, and whether they are being stopped."""

    def __init__(self) -> None:
        self.running: dict[int, tuple[str, ...]] = {}
        self.pauses: dict[tuple[str, ...], float] = {}
        self.stopping = False

    def start(self, component: tuple[str, ...]) -> None:
        self.running[_fork(component)] = component

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Tell all but the server to leave: a task that is ending still reports to it."""
        self.stopping = True
        self._tell(server=False)

    def _tell(self, *, server: bool) -> None:
        for pid, component in self.running.items():
            if (component == _SERVER) == server:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def watch(self) -> None:
        """Until told to stop: start again what ended. Then until all are gone."""
        while self.running:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                return
            component = self.running.pop(pid, None)
            if self.stopping and set(self.running.values()) == {_SERVER}:
                self._tell(server=True)
            if component is None or self.stopping:
                continue
            pause = self.pauses.get(component, 1.0)
            self.pauses[component] = min(pause * 2, _LONGEST_PAUSE)
            code = os.waitstatus_to_exitcode(status)
            _say(f"ERROR {component[0]} ended with {code}; starting it again in {pause:.0f} s")
            time.sleep(pause)
            if not self.stopping:
                self.start(component)


def _say(text: str) -> None:
    sys.stderr.write(f"penstock: {text}\n")
    sys.stderr.flush()


def _fork(component: tuple[str, ...]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(component)
    return pid


def _become(component: tuple[str, ...]) -> NoReturn:
    """Be that component, as if typed on a command line, and never return."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["airflow", *component]
    code = 1
    try:
        from airflow.__main__ import main as airflow

        airflow()  # type: ignore[no-untyped-call]
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for module in _SHARED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the collector would otherwise touch, and so copy, every shared page
    for step in STEPS:
        _, status = os.waitpid(_fork(step), 0)
        if status:
            _say(f"ERROR `airflow {' '.join(step[:2])}` failed: the database is not as it must be")
            sys.exit(1)
    family = _Family()
    signal.signal(signal.SIGTERM, family.stop)
    signal.signal(signal.SIGINT, family.stop)
    for component in COMPONENTS:
        family.start(component)
    family.watch()


if __name__ == "__main__":
    main()
