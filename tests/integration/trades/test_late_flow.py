"""Late rows, bad rows and the count of all rows, as an operator meets them: on real parts."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys

import pytest

from tests.live import PROJECT, read, rows_where, wait_for

pytestmark = pytest.mark.platform


@pytest.fixture
def penstock(home):
    """The command line, on the stack under test; returns what it printed as JSON."""

    def run(*arguments: str, code: int = 0):
        done = subprocess.run(  # noqa: PLW1510 - the code is looked at
            [sys.executable, "-m", "penstock.cli", *arguments, "--json"],
            env={
                **os.environ,
                "PENSTOCK_HOME": str(home.home),
                "PENSTOCK_PROJECT": str(home.project),
                "PENSTOCK_PORT_OFFSET": str(home.port_offset),
                "PENSTOCK_JARS": str(home.jars),
            },
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    return run


def windows(home, ticker: str) -> dict[int, int]:
    """Trades per window, by seconds since the ticker's first."""
    rows = [r for r in rows_where(home, "gold", "stock_stats", ticker=ticker) if r["is_final"]]
    return {int(r["window_start"].timestamp()): r["trades"] for r in rows}


def all_balance(penstock) -> list[dict] | None:
    found = penstock("outcomes")
    return None if any(row["missing"] for row in found) else found


def test_late_rows_count_after_reconcile(home, feed, penstock):
    start = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=60)
    feed.send("LATE", at=start)
    feed.send("LATEEND", at=start + dt.timedelta(seconds=30))
    feed.flush()
    first = int(start.timestamp())
    wait_for("windows to close", lambda: windows(home, "LATE").get(first) == 1)
    feed.send("LATE", size=2, at=start + dt.timedelta(seconds=1))
    feed.flush()
    wait_for("a late row", lambda: len(read(home, "late", "gold_stock_stats")) == 5)
    before = windows(home, "LATE")
    assert before == {first - back: 1 for back in range(5)}, (
        "late rows change nothing by themselves"
    )
    (done,) = penstock("reconcile", "gold.stock_stats")
    assert done["late"] == 5
    after = windows(home, "LATE")
    assert after == {**{first - back: 2 for back in range(4)}, first - 4: 1, first + 1: 1}
    assert len(read(home, "late", "gold_stock_stats")) == 0
    balance = wait_for("outcomes to balance", lambda: all_balance(penstock))
    assert {row["table"] for row in balance} >= {"silver.trades", "gold.stock_stats"}


def test_replay_moves_exactly_what_is_good_now(home, feed, penstock, test_project):
    """The rule was wrong: it is mended in the tree, and the rows it condemned come in, once."""
    feed.raw(feed.producer.encode(_trade("MEND", 20_000_000)), key=b"mend")
    feed.raw(feed.producer.encode(_trade("MEND", -1)), key=b"still bad")
    feed.flush()
    keys = {b"mend", b"still bad"}
    wait_for("quarantine", lambda: keys <= set(_apart(home)))
    kept = len(_apart(home))

    unchanged = penstock("quarantine", "replay", "silver.trades", _apart(home)[b"mend"]["row_id"])
    assert (unchanged["replayed"], unchanged["still_bad"]) == (0, 1)
    assert len(_apart(home)) == kept, "a row that fails again stays, without a copy"

    rules = test_project / "spark_jobs" / "bronze" / "trades.py"
    before = rules.read_text()
    try:
        rules.write_text(before.replace("maximum=10_000_000", "maximum=100_000_000"))
        assert rules.read_text() != before
        done = penstock("quarantine", "replay", "silver.trades", "--with-tree")
    finally:
        rules.write_text(before)
    assert done["replayed"] == 1
    assert [r["size"] for r in rows_where(home, "silver", "trades", ticker="MEND")] == [20_000_000]
    assert b"mend" not in _apart(home)
    assert b"still bad" in _apart(home)
    again = penstock("quarantine", "replay", "silver.trades", "--with-tree")
    assert again["replayed"] == 0
    assert len(rows_where(home, "silver", "trades", ticker="MEND")) == 1
    wait_for("outcomes to balance", lambda: all_balance(penstock))


def _trade(ticker: str, size: int) -> dict:
    from decimal import Decimal

    one = Decimal("1.0000")
    return {"ticker": ticker, "price": one, "ask_price": one, "size": size, "side": "buy"}


def _apart(home) -> dict[bytes, dict]:
    return {row["key"]: row for row in read(home, "quarantine", "silver_trades").to_pylist()}


def test_asking_for_what_is_not_there_says_so(penstock, home):
    penstock("reconcile", "gold.nothing", code=2)
    penstock("quarantine", "replay", "gold.stock_stats", code=1)
