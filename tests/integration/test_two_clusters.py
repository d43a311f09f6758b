"""Two real clusters: what the other one has is copied here once, and bronze knows whose it is."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.platform.stack import Stack
from penstock.runtime.kafka import client_options
from penstock.settings import Settings
from tests.live import PROJECT, Supervised, read, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(1500)]

KEPT = {
    "bronze": {"__init__.py", "readings.py"},
    "silver": {"__init__.py", "readings.py"},
    "gold": {"__init__.py"},
    "contracts": {"__init__.py", "readings.avsc"},
}
PAGE = PROJECT / "docs" / "two-clusters.md"


def documented() -> str:
    """The definition on the page, which is what runs here."""
    return PAGE.read_text().split("```python\n")[1].split("```")[0]


@contextmanager
def started(base: Settings, offset: int, *names: str) -> Iterator[Stack]:
    """A stack of its own, beside the one other tests share."""
    with tempfile.TemporaryDirectory(prefix="penstock-cluster-") as folder:
        home = Path(folder).resolve()
        stack = Stack(replace(base, home=home, port_offset=base.port_offset + offset))
        try:
            stack.up(only=names)
            yield stack
        finally:
            stack.down()


@pytest.fixture(scope="module")
def west(base_settings: Settings) -> Iterator[Stack]:
    """The other cluster: a broker, and nothing else of ours."""
    with started(base_settings, 200, "kafka") as stack:
        yield stack


@pytest.fixture(scope="module")
def east(base_settings: Settings) -> Iterator[Stack]:
    with started(base_settings, 100, "postgres", "kafka", "registry") as stack:
        yield stack


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two-clusters")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(PROJECT / name, folder)
    shutil.copytree(PROJECT / "infra", folder / "infra")

    def ignored(place: str, names: list[str]) -> list[str]:
        kept = KEPT.get(Path(place).name)
        return [n for n in names if n == "__pycache__" or (kept is not None and n not in kept)]

    shutil.copytree(PROJECT / "spark_jobs", folder / "spark_jobs", ignore=ignored)
    (folder / "spark_jobs" / "west.py").write_text(documented())
    return folder


class Sensors:
    """Measurements sent to one cluster; what it acknowledged is remembered whole."""

    def __init__(self, settings: Settings, site: str) -> None:
        self._producer = Producer(client_options(settings, "demo-producer"))
        self.site, self.sent = site, 0
        self.acked: list[tuple] = []

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            number, now = self.sent, dt.datetime.now(dt.UTC)
            row = {
                "sensor_id": f"{self.site}-{number % 9}",
                "value": number / 4,
                "unit": "celsius",
                "measured_at": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            }
            headers = [("site", self.site.encode()), ("raw", bytes([0, 255, number % 256]))]
            self._producer.produce(
                "readings",
                json.dumps(row).encode(),
                row["sensor_id"].encode(),
                headers=headers,
                timestamp=int(now.timestamp() * 1000),
                on_delivery=self._remember(headers),
            )
        assert self._producer.flush(60) == 0

    def _remember(self, headers: list):
        def delivered(error, message) -> None:
            assert error is None, error
            at = message.timestamp()[1]
            self.acked.append(
                (message.partition(), message.key(), message.value(), tuple(headers), at)
            )

        return delivered


def in_bronze(settings: Settings, name: str) -> Counter:
    return Counter(
        (
            r["partition"], r["key"], r["value"],
            tuple((h["key"], h["value"]) for h in r["headers"] or ()),
            round(r["timestamp"].timestamp() * 1000),
        )
        for r in read(settings, "bronze", name).to_pylist()
    )  # fmt: skip


def cluster_id(settings: Settings) -> str:
    admin = AdminClient(client_options(settings, "admin"))
    return admin.describe_cluster(request_timeout=15).result().cluster_id


def penstock(settings: Settings, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        env=settings.environment(),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kill(stack: Stack, name: str) -> None:
    recorded = stack.services[name].pid_file.read()
    assert recorded is not None
    os.kill(recorded.pid, signal.SIGKILL)


def test_a_topic_of_another_cluster_is_copied_once_and_told_apart(
    east: Stack, west: Stack, project: Path
) -> None:
    here = replace(east.settings, project=project)
    supervised = Supervised(here)
    own, theirs = Sensors(here, "east"), Sensors(west.settings, "west")
    own.send(50)
    theirs.send(300)
    try:
        asked = ("mirror", "west", "--home", str(west.settings.home), "--topics", "readings")
        told = json.loads(penstock(here, *asked, "--json"))
        assert [m["cluster_id"] for m in told] == [cluster_id(west.settings)]
        process = supervised.start()
        began = time.monotonic()
        theirs.send(1)
        _arrives(here, theirs)
        print(f"one record of west in bronze here after {time.monotonic() - began:.1f} s")

        for victim, name in ((east, "connect"), (west, "kafka")):
            theirs.send(200)
            kill(victim, name)
            if victim is east:
                theirs.send(200)  # its own cluster lives: nobody there notices
            victim.up(only=[name])
            theirs.send(200)
            _arrives(here, theirs)

        copies = read(here, "bronze", "west_readings")
        originals = read(here, "bronze", "readings")
        assert set(copies["cluster_id"].to_pylist()) == {cluster_id(west.settings)}
        assert set(originals["cluster_id"].to_pylist()) == {cluster_id(here)}
        assert set(copies["topic"].to_pylist()) == {"mirror.west.readings"}
        assert in_bronze(here, "readings") == Counter(own.acked)
        wait_for(
            "silver of the copies",
            lambda: read(here, "silver", "west_readings").num_rows == len(theirs.acked),
        )

        penstock(here, "mirror", "west", "--remove")
        theirs.send(20)
        time.sleep(5)
        assert read(here, "bronze", "west_readings").num_rows == len(theirs.acked) - 20
        assert supervised.stop(process) == 0
    finally:
        supervised.kill_all()


def _arrives(here: Settings, theirs: Sensors) -> None:
    """Everything that the other cluster acknowledged, byte for byte, once."""

    def complete() -> bool:
        return sum(in_bronze(here, "west_readings").values()) >= len(theirs.acked)

    wait_for("the copies", complete, 180)
    assert in_bronze(here, "west_readings") == Counter(theirs.acked)
