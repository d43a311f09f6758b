"""Supervisors that die or sleep: nothing lost, nothing doubled, and a sleeper commits nothing."""

from __future__ import annotations

import json
import random
import signal
import time

import pytest
from trades_load import Load, check_exact, drained

from penstock.runtime.delta.log import LEASE
from tests.live import rows_where

pytestmark = [pytest.mark.platform, pytest.mark.timeout(1500)]

FEW, MANY = 2, 8  # kills; `make chaos` has the many


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_kills_under_load_lose_and_double_nothing(supervised, feed, kills):
    home, name = supervised.settings, "KILL" if kills == FEW else "MANY"
    dice = random.Random(20261116 + kills)
    process = supervised.start()
    with Load(feed, name):
        for _ in range(kills):
            time.sleep(dice.uniform(0.5, 4.0))
            supervised.signal(process, signal.SIGKILL)
            process.wait()
            process = supervised.start(wait=False)
            # up far enough to commit, then it may die anywhere in its work
            supervised.wait_state(process, "running")
        supervised.wait_running(process)
        time.sleep(3)
    drained(home, feed, name)
    check_exact(home, feed, name)
    assert supervised.stop(process) == 0


def test_a_sleeper_that_wakes_after_its_successor_commits_nothing(supervised, feed):
    home = supervised.settings
    first = supervised.start()
    second = supervised.start(wait=False)
    supervised.wait_state(second, "standby")
    with Load(feed, "SLEEP"):
        time.sleep(3)
        supervised.signal(first, signal.SIGSTOP)
        slept = time.monotonic()
        supervised.wait_state(second, "running")
        took = time.monotonic() - slept
        supervised.wait_running(second)
        token = _token(home)
        supervised.signal(first, signal.SIGCONT)
        supervised.wait_state(first, "standby")
        time.sleep(2)
        assert _token(home) == token, "the sleeper took nothing back"
    assert took < 45, f"takeover took {took:.0f} s"
    drained(home, feed, "SLEEP")
    check_exact(home, feed, "SLEEP")
    assert rows_where(home, "silver", "trades", ticker="SLEEP1")
    assert supervised.stop(first) == 0
    assert supervised.stop(second) == 0


def _token(home) -> int:
    """The newest lease token in the live log of silver.trades, read from its files alone."""
    tokens = []
    for path in (home.warehouse / "silver" / "trades" / "_delta_log").glob("*.json"):
        for line in path.read_text().splitlines():
            txn = json.loads(line).get("txn", {})
            if txn.get("appId") == LEASE:
                tokens.append(txn["version"])
    return max(tokens)
