"""A standalone Spark cluster on loopback: a master and workers, from the Spark of the environment.

Its secret is in a file of properties, as it would be between machines; the lines that start it are
those of infra/kubernetes, which a test holds equal.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
LOOPBACK = "127.0.0.1"


class Cluster:
    """Started and stopped by process group: a worker's executors go with it."""

    def __init__(self, folder: Path, port: int, java_home: str | None = None) -> None:
        self.folder = folder
        self.port = port
        self.secret = secrets.token_urlsafe(24)
        self.properties = folder / "spark.properties"
        self.properties.touch(mode=0o600)
        self.properties.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {self.secret}\n"
        )
        self._java_home = java_home
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def master(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def start(self, workers: int = 2) -> None:
        web = self.port + 10
        self._run("master", MASTER, "--port", str(self.port), "--webui-port", str(web))
        self._until_open(self.port)
        for number in range(1, workers + 1):
            self.start_worker(f"worker-{number}", web + number)

    def start_worker(self, name: str, web: int) -> None:
        size = ("--cores", "2", "--memory", "2g", "--work-dir", str(self.folder / name))
        self._run(name, WORKER, *size, "--webui-port", str(web), self.master)
        self._until_open(web)

    def kill(self, name: str) -> None:
        """As a machine that is switched off: the worker and all it started, at once."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait(30)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)

    def logs(self, worker: str) -> list[Path]:
        """What its executors said."""
        return sorted((self.folder / worker).glob("app-*/*/stderr"))

    def _run(self, name: str, main: str, *arguments: str) -> None:
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "SPARK_"))},
            "SPARK_HOME": str(SPARK),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",  # as tests/conftest.py says
            "TZ": "Asia/Tokyo",  # executors are told the zone, wherever they are
            **({"JAVA_HOME": self._java_home} if self._java_home else {}),
        }
        command = [str(SPARK / "bin" / "spark-class"), main, "--host", LOOPBACK,
                   "--properties-file", str(self.properties), *arguments]  # fmt: skip
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, env=env, stdout=log, stderr=subprocess.STDOUT,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip

    def _until_open(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with socket.create_connection((LOOPBACK, port), timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"nothing listens on {port}; see {self.folder}")
