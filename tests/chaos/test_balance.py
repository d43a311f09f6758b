"""Twenty kills of supervisor, broker and Connect under bad traffic: every row is accounted for.

All tables, on a whole stack of their own, with rows late, sent twice and broken. Afterwards bronze
holds what the broker acknowledged, once; outcomes balance for every table; and the tables are what
plain Python makes of their inputs.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.platform.stack import Stack
from penstock.runtime.ingest.topics import KafkaTopics
from penstock.runtime.registry import Registry
from tests.live import PROJECT, wait_for
from tests.oracles import (
    Row,
    apps,
    cards,
    hosts,
    hotel,
    in_order,
    logs,
    machines,
    markets,
    music,
    regions,
    sensors,
    shop,
    trucks,
    visits,
    web,
)  # fmt: skip

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(5400)]

KILLS = ["supervisor"] * 14 + ["kafka"] * 4 + ["connect"] * 2
PARTS = ["postgres", "kafka", "registry", "connect", "supervisor"]
PATIENCE = 900.0


@pytest.fixture(scope="module")
def whole(base_settings):
    with tempfile.TemporaryDirectory(prefix="penstock-balance-") as folder:
        stack = Stack(replace(base_settings, home=Path(folder).resolve(), port_offset=8000))
        try:
            stack.up(only=PARTS)
            yield stack
        finally:
            stack.down()


def environment(stack: Stack) -> dict[str, str]:
    return {
        **os.environ,
        "PENSTOCK_HOME": str(stack.settings.home),
        "PENSTOCK_PROJECT": str(stack.settings.project),
        "PENSTOCK_PORT_OFFSET": str(stack.settings.port_offset),
        "PENSTOCK_JARS": str(stack.settings.jars),
    }


def penstock(stack: Stack, *arguments: str):
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments, "--json"],
        check=False,
        env=environment(stack),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def traffic(stack: Stack) -> subprocess.Popen:
    flaws = ["--late", "0.05", "--duplicate", "0.01", "--bad", "0.005"]
    return subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.demo", "--rate", "30", *flaws],
        env=environment(stack),
        cwd=PROJECT,
        start_new_session=True,
    )


def kill(stack: Stack, name: str) -> None:
    """The whole process group at once, as a machine that loses power to it."""
    recorded = stack.services[name].pid_file.read()
    assert recorded is not None
    os.killpg(recorded.pid, signal.SIGKILL)
    time.sleep(1)
    stack.up(only=[name])


def rows(stack: Stack, table: str) -> list[dict]:
    layer, name = table.split(".")
    return DeltaTable(str(stack.settings.warehouse / layer / name)).to_pyarrow_table().to_pylist()


def drained(stack: Stack) -> bool:
    beat = Registry(stack.settings).heartbeat()
    streams = beat.streams if beat else []
    return bool(streams) and all(s["state"] == "running" and s["behind"] == 0 for s in streams)


def watermark(stack: Stack, table: str) -> dt.datetime:
    beat = Registry(stack.settings).heartbeat()
    assert beat is not None
    (told,) = [s["watermark"] for s in beat.streams if s["stream"].startswith(f"{table}@")]
    return dt.datetime.fromisoformat(told)


def test_twenty_kills(whole):
    dice = random.Random(20)
    kills = dice.sample(KILLS, len(KILLS))
    load = traffic(whole)
    try:
        for name in kills:
            time.sleep(dice.uniform(3, 12))
            kill(whole, name)
        time.sleep(10)
    finally:
        os.killpg(load.pid, signal.SIGTERM)
        assert load.wait(300) == 0, "everything sent was acknowledged"
    wait_for("everything to be taken in", lambda: drained(whole), PATIENCE)
    time.sleep(10)
    wait_for("everything to be taken in, still", lambda: drained(whole), PATIENCE)
    for _ in range(3):  # a reconciled table may make the one that reads it late in turn
        print("reconcile:", penstock(whole, "reconcile"))
    found = wait_for("outcomes to balance", lambda: _balanced(whole), PATIENCE)
    for row in found:
        print(row)
    _check_bronze(whole)
    _check_tables(whole)


def _balanced(stack: Stack) -> list[dict] | None:
    found = penstock(stack, "outcomes")
    return None if any(row["missing"] for row in found) else found


def _check_bronze(stack: Stack) -> None:
    manifest = json.loads(stack.settings.manifest.read_text())["tables"]
    streams = {e["name"]: e["topic"] for e in manifest if e["kind"] == "stream"}
    topics = KafkaTopics(stack.settings).describe(streams.values())
    for name, topic in streams.items():
        places = Counter((r["partition"], r["offset"]) for r in rows(stack, name))
        assert not places or max(places.values()) == 1, f"{name}: each row once"
        if topic.startswith("shop.public."):
            continue  # its transactions leave marks between the rows that are no rows
        expected = {
            (part, offset)
            for part, end in topics[topic].latest.items()
            for offset in range(topics[topic].earliest[part], end)
        }
        assert set(places) == expected, f"{name}: what the broker has"


def _stocks_and_visits(stack: Stack, silver: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Tables over tables are recounted from what those hold."""
    bars, views = rows(stack, "gold.stock_bars"), rows(stack, "gold.clicks_with_search")
    return {
        "gold.stock_bars": markets.stock_bars(
            silver["trades"], watermark(stack, "gold.stock_bars")
        ),
        "gold.stock_daily": markets.stock_daily(bars),
        "gold.top_stocks_daily": markets.top_stocks_daily(rows(stack, "gold.stock_daily")),
        "gold.clicks_with_search": visits.clicks_with_search(
            silver["clicks"], silver["searches"], watermark(stack, "gold.clicks_with_search")
        ),
        "gold.user_activity": visits.user_activity(views, silver["users"]),
        "gold.page_stats": visits.page_stats(silver["clicks"]),
        "gold.zip_stats": visits.zip_stats(rows(stack, "gold.clicks_enriched")),
        "gold.result_clicks": visits.result_clicks(views),
        "gold.query_top_results": visits.query_top_results(rows(stack, "gold.result_clicks")),
        "gold.error_events": logs.error_events(silver["app_logs"]),
        "gold.other_events": logs.other_events(silver["app_logs"]),
        "gold.word_counts": logs.word_counts(silver["app_logs"]),
    }


def _catalogue(stack: Stack) -> dict[str, list[Row]]:
    """As above, for every table of songs, regions, machines, cards, hosts, guests and services."""

    def timed(oracle: Callable[..., list[Row]], table: str, source: str) -> list[Row]:
        return oracle(rows(stack, source), watermark(stack, table))

    windows = {
        "gold.song_minutes": (music.song_minutes, "silver.song_plays"),
        "gold.song_hours": (music.song_hours, "gold.song_minutes"),
        "gold.song_days": (music.song_days, "gold.song_hours"),
        "gold.region_minutes": (regions.region_minutes, "silver.truck_positions"),
        "gold.region_day": (regions.region_day, "gold.region_minutes"),
        "gold.machine_steps": (machines.machine_steps, "silver.machine_readings"),
        "gold.machine_alerts": (machines.machine_alerts, "gold.machine_steps"),
        "gold.card_velocity": (cards.card_velocity, "silver.card_payments"),
        "gold.host_beacons": (hosts.host_beacons, "silver.connections"),
        "gold.request_minutes": (apps.request_minutes, "silver.app_requests"),
        "gold.log_minutes": (apps.log_minutes, "silver.app_logs"),
    }
    states = {
        "gold.top_songs": (
            music.top_songs, "gold.song_minutes", "gold.song_hours", "gold.song_days"
        ),
        "gold.truck_last_seen": (regions.truck_last_seen, "silver.truck_positions"),
        "gold.region_rolling": (regions.region_rolling, "gold.region_day", "silver.regions"),
        "gold.card_fraud": (cards.card_fraud, "gold.card_velocity", "silver.fraud_rules"),
        "gold.fraud_review": (cards.fraud_review, "gold.card_fraud", "silver.payment_outcomes"),
        "gold.guest_journey": (hotel.guest_journey, "silver.hotel_events", "silver.loyalty"),
        "gold.app_metrics": (apps.app_metrics, "gold.request_minutes", "gold.log_minutes"),
    }  # fmt: skip
    return {table: timed(oracle, table, source) for table, (oracle, source) in windows.items()} | {
        table: oracle(*(rows(stack, source) for source in sources))
        for table, (oracle, *sources) in states.items()
    }


def _check_tables(stack: Stack) -> None:
    silver = {
        name: rows(stack, f"silver.{name}")
        for name in ("shipments", "sales", "returns", "truck_positions", "clicks", "users",
                     "trades", "readings", "truck_loads", "searches", "app_logs")
    }  # fmt: skip
    expected = {
        "gold.inventory": shop.inventory(silver["shipments"], silver["sales"], silver["returns"]),
        "gold.returns_by_reason": shop.returns_by_reason(silver["returns"]),
        "silver.truck_loads": trucks.truck_loads(silver["truck_positions"]),
        "gold.merchandise_by_region": trucks.merchandise_by_region(silver["truck_loads"]),
        "gold.clicks_enriched": web.clicks_enriched(silver["clicks"], silver["users"]),
        "gold.stock_stats": markets.stock_stats(
            silver["trades"], watermark(stack, "gold.stock_stats")
        ),
        "gold.sensor_5m": sensors.sensor_5m(silver["readings"], watermark(stack, "gold.sensor_5m")),
        **_stocks_and_visits(stack, silver),
        **_catalogue(stack),
    }
    expected["gold.inventory_by_model"] = shop.inventory_by_model(rows(stack, "gold.inventory"))
    for table, wanted in expected.items():
        assert in_order(rows(stack, table)) == in_order(wanted), table
        print(table, len(wanted), "rows as recounted")
