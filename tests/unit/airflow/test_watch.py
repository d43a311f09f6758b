"""What is alerted about, restarted and reported as moved, look after look."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.airflow.manifest import Known
from penstock.airflow.notify import alert
from penstock.airflow.streams import StreamsStale
from penstock.airflow.watch import Seen, breaches, judge, watch
from penstock.settings import Settings

KNOWN = Known(
    Path(), ("bronze.trades",), ("silver.trades", "gold.stats"),
    revisions={"silver.trades": "aaa", "gold.stats": "ccc"},
)  # fmt: skip
NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC).timestamp()


def stream(name: str = "gold.stats@ccc", **more: Any) -> dict[str, Any]:
    return {"stream": name, "state": "running", "behind": 0, "version": 7, "idle_seconds": 1,
            "quarantined": 0, "failures": 0, **more}  # fmt: skip


def problems(*streams: dict[str, Any], seen: Seen | None = None, now: float = NOW) -> set[str]:
    return set(judge(streams, KNOWN, seen or Seen(), now).problems)


def test_a_healthy_stream_is_no_news() -> None:
    fresh = dt.datetime.fromtimestamp(NOW - 30, dt.UTC).isoformat()
    assert problems(stream(), stream("bronze.trades"), stream(watermark=fresh)) == set()


def test_each_kind_of_trouble_is_told() -> None:
    old = dt.datetime.fromtimestamp(NOW - 3600, dt.UTC).isoformat()
    cases = {
        "parked": stream(state="parked", error="x"),
        "broken": stream(state="broken"),
        "failing": stream(state="waiting", failures=9),
        "lag": stream(behind=10_000),
        "stuck": stream(behind=3, idle_seconds=1000),
        "watermark": stream(watermark=old),
        "alarm": stream(alarm="all rows went to quarantine"),
    }
    for word, case in cases.items():
        assert problems(case) == {f"{word}:gold.stats@ccc"}, word
    assert problems(stream(state="waiting", failures=1)) == set(), "it is tried again by itself"
    assert problems(stream("bronze.trades", behind=10_000)) == set(), "rows, not commits"


def test_rows_set_apart_are_counted_between_looks() -> None:
    seen = Seen()
    assert problems(stream(quarantined=50_000), seen=seen) == set(), "nobody knows since when"
    assert problems(stream(quarantined=50_010), seen=seen) == set()
    assert problems(stream(quarantined=60_000), seen=seen) == {"quarantine:gold.stats@ccc"}
    assert problems(stream(quarantined=0), seen=seen) == set(), "a restart"


def test_the_same_trouble_is_told_again_after_half_an_hour_only() -> None:
    seen, parked = Seen(), stream(state="parked")
    assert problems(parked, seen=seen)
    assert problems(parked, seen=seen, now=NOW + 600) == set()
    assert problems(parked, seen=seen, now=NOW + 2400)
    assert problems(stream(), seen=seen, now=NOW + 2460) == set()
    assert problems(parked, seen=seen, now=NOW + 2520), "it was well in between"


def test_what_is_stuck_is_restarted_once_in_ten_minutes() -> None:
    seen, stuck = Seen(), stream(behind=3, idle_seconds=1000)
    assert judge([stuck], KNOWN, seen, NOW).restarts == ["gold.stats@ccc"]
    assert judge([stuck], KNOWN, seen, NOW + 60).restarts == []
    assert judge([stuck], KNOWN, seen, NOW + 700).restarts == ["gold.stats@ccc"]
    assert judge([stream(state="parked")], KNOWN, Seen(), NOW).restarts == []


def test_tables_that_moved_are_told_together_and_seldom() -> None:
    seen = Seen()

    def moved(after: float, **versions: int) -> dict[str, int]:
        names = {"stats": "gold.stats@ccc", "trades": "bronze.trades", "other": "gold.stats@new"}
        streams = [stream(names[name], version=version) for name, version in versions.items()]
        return judge(streams, KNOWN, seen, NOW + after).moved

    assert moved(0, stats=7) == {"gold.stats": 7}, "at once, for a fresh stack"
    assert moved(60, stats=8, trades=1) == {}
    assert moved(301, stats=9, trades=2) == {"gold.stats": 9, "bronze.trades": 2}
    assert moved(700, stats=10) == {}, "from now on every quarter of an hour"
    assert moved(1300, stats=9, other=5) == {}, "nothing new; what is not live is no news"
    assert moved(1360, stats=11) == {"gold.stats": 11}


def test_memory_outlasts_a_look_and_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    seen = Seen.load(file)
    judge([stream(state="parked")], KNOWN, seen, NOW)
    seen.save(file)
    assert problems(stream(state="parked"), seen=Seen.load(file), now=NOW + 60) == set()
    file.write_text("{")
    assert Seen.load(file) == Seen()


def test_breaches_of_what_was_promoted() -> None:
    tables = {"gold.stats": "ccc"}
    assert breaches([stream()], tables, {}, 100) == []
    assert "held: why" in breaches([stream()], tables, {"gold.stats": "why"}, 100)[0]
    assert "101 commits" in breaches([stream(behind=101)], tables, {}, 100)[0]
    assert "parked" in breaches([stream(state="parked")], tables, {}, 100)[0]
    assert "not run" in breaches([stream("gold.stats@old")], tables, {}, 100)[0]
    assert breaches([stream(), stream("gold.other@x", state="parked")], tables, {}, 100) == []


def test_an_alert_is_a_line_in_a_file_only_we_can_read(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    alert(settings, "lag", "one\ntwo", stream="x")
    alert(settings, "lag", "again")
    file = settings.home / "alerts.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["one\ntwo", "again"]
    assert file.stat().st_mode & 0o077 == 0


def test_a_supervisor_that_is_gone_fails_every_look_and_is_told_once(settings: Settings) -> None:
    """No registry answers here, so there is no heartbeat."""
    for _ in range(3):
        with pytest.raises(StreamsStale):
            watch(settings)
    lines = (settings.home / "alerts.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in lines] == ["supervisor"]
