"""The service as it is started: it publishes by itself, says how it goes, and is light."""

from __future__ import annotations

import signal
import subprocess
import time

import psutil
import pytest
from topic_oracle import table_state

from penstock.platform.publisher import Publisher
from penstock.platform.spec import PlatformSpec
from penstock.publish.state import read_told
from tests.live import wait_for

pytestmark = pytest.mark.platform
MOST = 170 << 20  # bytes; 147 MB were measured


def test_it_follows_its_tables_and_stays_small(at, world, declare, oracle, capsys):
    changes, events = declare(format="avro"), declare("events", format="json")
    service = Publisher(at, PlatformSpec.load(at.project))
    assert not service.ready()
    log = (at.home / "publisher.log").open("ab")
    process = subprocess.Popen(
        service.command(), env=at.environment(),
        cwd=at.project, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:

        def caught_up() -> bool:
            told = read_told(at)
            return bool(told and len(told.publications) == 2) and all(
                one["version"] == world.version for one in told.publications
            )

        wait_for("the first load", caught_up, 60)
        seconds = []
        for _ in range(5):
            world.append(200)
            world.update()
            began, total = time.monotonic(), table_state(world.rows())
            wait_for("the changes", lambda t=total: oracle.state(changes, world.writer.schema) == t)
            seconds.append(time.monotonic() - began)
        wait_for("both to be told of", caught_up, 30)
        memory = psutil.Process(process.pid).memory_info().rss
        assert service.ready()
        assert service.detail() == "2 publications, 0 commits behind"
        assert len(oracle.records(events)) > 1000
        with capsys.disabled():
            print(f"\npublisher: {memory >> 20} MB, seen after {max(seconds):.1f} s at most")
        assert memory < MOST
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_second_one_is_refused(at, world, declare):
    from penstock.errors import EnvironmentProblem
    from penstock.publish.run import publishing_alone

    with publishing_alone(at):
        with pytest.raises(EnvironmentProblem, match="at work already"):
            with publishing_alone(at):
                pass
