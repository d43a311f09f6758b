"""kill -9 at any step: nothing is lost, nothing is said twice, promote and rollback included."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from doomed_publisher import killed_at
from topic_oracle import shown, table_state

from penstock.publish.state import read_told
from tests.live import wait_for
from tests.unit.export.export_world import World

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["penstock.publish.run", "penstock.clients.records"])
    return context


def run_until_done(processes, at, happens, numbers) -> int:
    """Kill one publisher after the other, each some steps further, while the table lives on."""
    deaths = 0
    for number in numbers:
        happens()
        child = processes.Process(target=killed_at, args=(at, number, 4))
        child.start()
        child.join(120)
        assert child.exitcode in (0, -signal.SIGKILL)
        deaths += child.exitcode != 0
    child = processes.Process(target=killed_at, args=(at, 10**9, 4))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    return deaths


def lively(world: World, seed: int):
    dice = random.Random(seed)

    def happens() -> None:
        what = dice.choice(["append", "update", "promote", "rollback", "compact", "append"])
        world.append(dice.randrange(1, 5)) if what == "append" else getattr(world, what)()

    return happens


def both_hold(at, world: World, oracle, changes: str, events: str) -> None:
    schema = world.writer.schema
    assert oracle.state(changes, schema) == table_state(world.rows())
    rows: Counter[str] = Counter()
    current: dict[object, str] = {}
    for sent in oracle.records(events):
        text = shown(sent.row, schema)
        change = sent.headers["penstock-change"]
        if change == "update":
            rows[current[sent.key]] -= 1
        rows[text] += -1 if change == "delete" else 1
        current[sent.key] = text
    assert +rows == table_state(world.rows())
    assert min(rows.values()) >= 0


def test_killed_at_steps(at, world, declare, oracle, processes):
    changes, events = declare(format="avro"), declare("events")
    numbers = [2, 5, 9, 14, 27, 7]
    deaths = run_until_done(processes, at, lively(world, 4), numbers)
    assert deaths >= 4
    both_hold(at, world, oracle, changes, events)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
def test_killed_at_every_step(at, world, declare, oracle, processes, seed):
    changes, events = declare(format="avro"), declare("events")
    deaths = run_until_done(processes, at, lively(world, seed), range(60))
    assert deaths >= 30
    both_hold(at, world, oracle, changes, events)


@pytest.mark.slow
def test_the_service_killed_at_any_time(at, world, declare, oracle):
    """The command itself, at moments of the clock, while the table lives on."""
    changes, events = declare(format="avro"), declare("events")
    dice, happens = random.Random(7), lively(world, 7)
    log = (at.home / "publisher.log").open("ab")

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli", "publish", "--follow"]
        return subprocess.Popen(command, env=at.environment(), cwd=at.project, stdout=log,
                                stderr=log, start_new_session=True)  # fmt: skip

    for _ in range(8):
        process = start()
        until = time.monotonic() + 2 + dice.random() * 2.5
        while time.monotonic() < until:
            happens()
            time.sleep(dice.random() * 0.2)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    process = start()

    def caught_up() -> bool:
        told = read_told(at)
        if told is None or told.pid != process.pid or len(told.publications) != 2:
            return False
        return all(one["version"] == world.version for one in told.publications)

    wait_for("all to be published", caught_up, 90)
    process.terminate()
    assert process.wait(30) == 0
    both_hold(at, world, oracle, changes, events)
