"""Windows over songs, trucks, machines, cards, hosts and requests: stream, batch and oracle agree.

Rows come in any batches and in any order within what the table waits for; then nothing is late.
"""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import (
    Row,
    apps,
    cards,
    hosts,
    in_order,
    logs,
    machines,
    music,
    regions,
    samples,
    trucks,
)
from tests.oracles import catalogue_samples as more
from tests.oracles.plans import TRIES, Plan, agree, plans, tried
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

FAR = samples.START.replace(year=2100)


@dataclass(frozen=True)
class Case:
    """A table with windows: what it reads, by which time, how long it waits, what it holds."""

    source: str
    on: str
    make: Callable[[random.Random, int], list[Row]]
    oracle: Callable[[list[Row], dt.datetime], list[Row]]
    lateness: float = 0.0  # seconds
    apart: float | None = None  # how far rows are mixed, where that is more than the lateness
    most: int = 24

    def arriving(self, dice: random.Random, count: int) -> list[Row]:
        apart = self.lateness if self.apart is None else self.apart
        return more.arriving(dice, self.make(dice, count), self.on, apart)


def plays(dice: random.Random, count: int, seconds: float = 900) -> list[Row]:
    return music.silver_song_plays(samples.sent(more.song_plays(dice, count, seconds)))


def minutes(dice: random.Random, count: int) -> list[Row]:
    return music.song_minutes(plays(dice, count, 5 * 3600), FAR)


def sightings(dice: random.Random, count: int, seconds: float = 300) -> list[Row]:
    rows = trucks.silver_truck_positions(samples.sent(samples.truck_positions(dice, count)))
    return [
        {**row, "seen_at": samples.START + dt.timedelta(seconds=dice.randrange(int(seconds)))}
        for row in rows
    ]


def region_minutes(dice: random.Random, count: int) -> list[Row]:
    return regions.region_minutes(sightings(dice, count, 40 * 3600), FAR)


def measured(dice: random.Random, count: int) -> list[Row]:
    return machines.silver_machine_readings(samples.sent(more.machine_readings(dice, count)))


def steps(dice: random.Random, count: int) -> list[Row]:
    return machines.machine_steps(measured(dice, 3 * count), FAR)


def paid(dice: random.Random, count: int) -> list[Row]:
    return cards.silver_card_payments(samples.sent(more.card_payments(dice, count)))


def connected(dice: random.Random, count: int) -> list[Row]:
    return hosts.silver_connections(samples.sent(more.connections(dice, count)))


def requested(dice: random.Random, count: int) -> list[Row]:
    return apps.silver_app_requests(samples.sent(more.app_requests(dice, count)))


def logged(dice: random.Random, count: int) -> list[Row]:
    rows = logs.silver_app_logs(samples.sent(samples.app_logs(dice, count)))
    return [
        {**row, "logged_at": samples.START + dt.timedelta(seconds=dice.randrange(240))}
        for row in rows
    ]


CASES = {
    "gold.song_minutes": Case(
        "silver.song_plays", "played_at", plays, music.song_minutes, 10, most=40
    ),
    "gold.song_hours": Case("gold.song_minutes", "window_start", minutes, music.song_hours),
    "gold.region_minutes": Case(
        "silver.truck_positions", "seen_at", sightings, regions.region_minutes, 30
    ),
    "gold.region_day": Case("gold.region_minutes", "ended_at", region_minutes, regions.region_day),
    "gold.machine_steps": Case(
        "silver.machine_readings", "measured_at", measured, machines.machine_steps, 5, most=40
    ),
    "gold.machine_alerts": Case("gold.machine_steps", "ended_at", steps, machines.machine_alerts),
    "gold.card_velocity": Case(
        "silver.card_payments", "paid_at", paid, cards.card_velocity, 0, apart=480
    ),
    "gold.host_beacons": Case(
        "silver.connections", "connected_at", connected, hosts.host_beacons, 10, most=40
    ),
    "gold.request_minutes": Case(
        "silver.app_requests", "requested_at", requested, apps.request_minutes, 10
    ),
    "gold.log_minutes": Case("silver.app_logs", "logged_at", logged, apps.log_minutes, 10),
}


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", CASES)
def test_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table, case = jobs.tables[TableName.parse(name)], CASES[name]

    @tried(tries)
    @given(plan=plans({case.source: case.arriving}, most=case.most))
    def holds(plan: Plan) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, {case.source: TABLES[case.source]})
            plan.carry_out(kit)
            rows = plan.fed(case.source)
            newest = max(row[case.on] for row in rows)
            agree(kit, case.oracle(rows, newest - dt.timedelta(seconds=case.lateness)))
            assert kit.late() == [], "within lateness nothing is late"

    holds()


def test_a_late_play_waits_for_reconcile_and_then_counts_in_every_frame(spark, jobs, tmp_path):
    source = "silver.song_plays"
    table = jobs.tables[TableName.parse("gold.song_minutes")]
    kit = Kit(spark, tmp_path, table, {source: TABLES[source]})
    heard = [{"play_id": f"p-{n}", "song_id": "s001", "listener_id": 1, "partition": 0, "offset": n,
              "played_at": samples.START + dt.timedelta(seconds=second)}
             for n, second in enumerate((5, 80, 10))]  # fmt: skip
    for row in heard:
        kit.feed([row])
    assert [row["plays"] for row in kit.rows()] == [1, 1], "a minute, in two frames"
    assert kit.outcomes() == {"counted": 2, "late": 1}
    kit.reconcile()
    watermark = samples.START + dt.timedelta(seconds=70)
    assert in_order(kit.rows()) == in_order(music.song_minutes(heard, watermark))
    assert kit.rows() == kit.batch_rows()
    assert {row["plays"] for row in kit.rows()} == {2}


def test_a_payment_is_there_at_once_and_changed_by_one_that_comes_late(spark, jobs, tmp_path):
    source = "silver.card_payments"
    table = jobs.tables[TableName.parse("gold.card_velocity")]
    kit = Kit(spark, tmp_path, table, {source: TABLES[source]})

    def payment(name: str, second: int, north: float) -> Row:
        row = paid(random.Random(1), 1)[0]
        at = samples.START + dt.timedelta(seconds=second)
        return {**row, "payment_id": name, "paid_at": at, "latitude": north, "longitude": 0.0}

    first, far, between = payment("a", 0, 50.0), payment("b", 40, 0.0), payment("c", 20, 0.0)
    kit.feed([first, far])
    told = {row["payment_id"]: row for row in kit.rows()}
    assert (told["b"]["payments"], told["b"]["km"]) == (2, 5560)
    assert told["b"]["kmh"] == 5560 * 3600 // 40
    kit.feed([between])
    told = {row["payment_id"]: row for row in kit.rows()}
    assert (told["b"]["payments"], told["b"]["km"]) == (3, 0)
    assert told["c"]["km"] == 5560
    assert told["a"]["km"] == 0, "the first payment of a card came from nowhere"
    agree(kit, cards.card_velocity([first, far, between], far["paid_at"]))


def test_samples_show_what_they_are_for():
    """Otherwise agreement would say nothing."""
    dice = random.Random(5)
    told = [machines.machine_alerts(steps(dice, 30), FAR) for _ in range(20)]
    alarms = [(row["temperature_alarm"], row["vibration_alarm"]) for rows in told for row in rows]
    assert {(True, False), (False, True), (True, True)} <= set(alarms)
    assert any(not rows for rows in told)
    beacons = [hosts.host_beacons(connected(dice, 30), FAR) for _ in range(20)]
    assert any(beacons)
    assert not all(beacons)
    speeds = [row for _ in range(5) for row in cards.card_velocity(paid(dice, 20), FAR)]
    assert max(row["payments"] for row in speeds) > 2
    assert max(row["kmh"] for row in speeds) > 900
