"""`penstock maintain` on the real broker, registry and database, while trades keep coming."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from deltalake import DeltaTable

from penstock.cli.asking import ask
from penstock.runtime.registry import Registry
from penstock.runtime.upkeep.maintain import Maintenance, Pace
from penstock.settings import Settings
from tests.live import PROJECT, Feed, Supervised, read, wait_for

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

MANY = 40  # small files
TABLES = ("bronze.trades", "silver.trades", "gold.stock_stats")
# Everything at once: what is a minute old counts as old, what is replaced goes.
AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=60, share=1.0, least=1)


def files(settings: Settings, table: str) -> int:
    layer, name = table.split(".")
    return len(DeltaTable(str(settings.warehouse / layer / name)).file_uris())


def maintained(settings: Settings) -> dict[str, dict]:
    registry = Registry(settings)

    def through(table, verb, arguments):
        if table.startswith("bronze."):
            verb, arguments = "compact-bronze", {**arguments, "table": table}
        return ask(settings, table, verb, arguments, quiet=True, timeout=120)

    done = Maintenance(settings.warehouse, registry.revisions(), through, pace=AT_ONCE).run()
    registry.close()
    return {one.table: one.as_dict() for one in done}


def places(settings: Settings, layer: str, feed: Feed) -> list[tuple[int, int]]:
    """Where the trades of this feed are that a table has; others may have sent some too."""
    found = read(settings, layer, "trades").select(["partition", "offset"]).to_pylist()
    every = [(row["partition"], row["offset"]) for row in found]
    return sorted(place for place in every if place in feed.acked)


def test_streams_go_on_while_files_are_merged_and_removed(running: Supervised, feed: Feed):
    settings = running.settings
    stop = threading.Event()

    def send() -> None:
        number = 0
        while not stop.wait(0.05):
            feed.send(f"M{number % 7}", size=1 + number % 9)
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait_for("enough small files", lambda: files(settings, "silver.trades") > MANY)
        for _ in range(3):
            done = maintained(settings)
            assert not [p for one in done.values() for p in one["problems"]], done
            sent = len(feed.acked)
            wait_for("more", lambda sent=sent: len(places(settings, "silver", feed)) > sent)
        assert done["silver.trades"]["commits_removed"] or done["silver.trades"]["oldest_version"]
    finally:
        stop.set()
        sender.join()
        feed.flush()
    wait_for("every trade", lambda: len(places(settings, "silver", feed)) >= len(feed.acked))
    assert places(settings, "silver", feed) == sorted(feed.acked)  # each once
    assert places(settings, "bronze", feed) == sorted(feed.acked)
    assert files(settings, "silver.trades") < MANY
    assert running.stop(running.processes[-1]) == 0

    running.start()  # from a log that begins with a checkpoint
    feed.send("LAST")
    feed.flush()
    wait_for("the last one", lambda: len(places(settings, "silver", feed)) >= len(feed.acked))
    assert places(settings, "silver", feed) == sorted(feed.acked)


def test_the_command_says_what_it_did(running: Supervised):
    settings = running.settings
    asked = [sys.executable, "-m", "penstock.cli", "maintain", *TABLES, "--json"]
    env = {**os.environ, **settings.environment()}
    told = _run(asked, env)
    assert told.returncode == 0, told.stderr
    result = json.loads(told.stdout)
    assert {one["table"] for one in result["tables"]} == set(TABLES)
    assert set(result["revisions"]) == {"retired", "dropped", "kept", "warm"}
    wrong = _run([*asked[:4], "gold.nothing"], env)
    assert (wrong.returncode, "no table gold.nothing" in wrong.stderr) == (2, True)


def _run(asked: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run(
        asked, check=False, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=300
    )
