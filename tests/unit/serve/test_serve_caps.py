"""Time and memory caps: they hold, they say which one it was, and they do not bite early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from live_tables import STATS, LiveTable, stats

from penstock.errors import QueryRefused, UsageError
from penstock.serve.guard import Guard
from penstock.serve.query import open_query, run_query
from penstock.settings import Settings


@pytest.fixture
def wide(live: Callable[[str], LiveTable]) -> LiveTable:
    """20,000 rows: crossed with itself three times it never ends."""
    table = live("gold.wide").create(STATS)
    table.append(stats(*((f"T{i}", i, float(i)) for i in range(20_000))))
    return table


CROSS = (
    "SELECT count(*) FROM gold.wide a, gold.wide b, gold.wide c WHERE a.trades*b.trades>c.trades"
)


@pytest.mark.parametrize(
    "sql",
    [
        CROSS,
        "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT sleep_ms(60000)",
        f"EXPLAIN ANALYZE {CROSS}",
    ],
    ids=["cross join", "endless recursion", "sleep", "explain analyze"],
)
def test_time_runs_out_in_about_the_cap(settings: Settings, wide: LiveTable, sql: str) -> None:
    started = time.monotonic()
    with pytest.raises(QueryRefused, match="time cap of 1 s") as caught:
        run_query(settings, sql, timeout_s=1)
    assert 0.9 < time.monotonic() - started < 8
    assert "--timeout" in caught.value.remedy


def test_time_runs_out_while_rows_are_fetched(settings: Settings, wide: LiveTable) -> None:
    with open_query(settings, "SELECT * FROM range(100000000000)", timeout_s=1) as running:
        batches = running.batches()
        assert next(batches)
        with pytest.raises(QueryRefused, match="time cap"):
            list(batches)


def test_a_slow_reader_of_the_rows_is_not_the_querys_fault(
    settings: Settings, wide: LiveTable
) -> None:
    with open_query(settings, "SELECT ticker FROM gold.wide", timeout_s=1) as running:
        batches = running.batches()
        seen = len(next(batches))
        time.sleep(1.5)  # a pager, waiting for a key
        seen += sum(len(batch) for batch in batches)
    assert seen == 20_000
    assert running.elapsed_s < 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM range(100000000) ORDER BY hash(range)",
        "SELECT list(range) FROM range(200000000)",
        "SELECT count(DISTINCT hash(range)) FROM range(200000000)",
    ],
)
def test_memory_is_capped_and_nothing_spills(settings: Settings, wide: LiveTable, sql: str) -> None:
    before = set(settings.home.rglob("*"))
    with pytest.raises(QueryRefused, match="memory") as caught:
        run_query(settings, sql, memory_limit="64MB", timeout_s=60)
    assert "--memory" in caught.value.remedy
    assert set(settings.home.rglob("*")) == before


def test_the_same_query_fits_in_more_memory(settings: Settings, wide: LiveTable) -> None:
    sql = "SELECT count(*) FROM (SELECT hash(range) h FROM range(3000000) GROUP BY 1)"
    with pytest.raises(QueryRefused, match="memory"):
        run_query(settings, sql, memory_limit="40MB")
    assert run_query(settings, sql, memory_limit="1GB").rows == [(3_000_000,)]


@pytest.mark.parametrize("size", ["", "lots", "1XB", "-1GB", "1MB", "1 GB x", "0"])
def test_a_size_that_is_none_is_a_usage_error(settings: Settings, size: str) -> None:
    with pytest.raises(UsageError, match="memory size"):
        run_query(settings, "SELECT 1", memory_limit=size)


@pytest.mark.parametrize("size", ["512MB", "1gb", "1.5 GB", "256MiB", "100000000"])
def test_sizes_are_written_as_people_write_them(settings: Settings, size: str) -> None:
    assert run_query(settings, "SELECT 1", memory_limit=size).rows == [(1,)]


def test_no_thread_outlives_its_query(settings: Settings, wide: LiveTable) -> None:
    run_query(settings, "SELECT 1")
    assert not [t for t in threading.enumerate() if t.name == "query-guard"]


# --- the watch itself ---------------------------------------------------------------------
def until(seen: Callable[[], bool]) -> None:
    """Work that goes on until the watch has done its part; or for ten seconds, if it never does."""
    deadline = time.monotonic() + 10
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_an_interrupt_is_repeated_until_the_work_stops() -> None:
    calls: list[float] = []
    with (
        Guard(lambda: calls.append(time.monotonic()), timeout_s=0.1, memory_bytes=10**12) as guard,
        pytest.raises(QueryRefused),
        guard.working(),
    ):
        until(lambda: len(calls) > 3)
    assert len(calls) > 3


def test_the_last_resort_comes_after_the_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.serve.guard._GRACE_S", 0.2)
    events: list[str] = []
    with (
        Guard(
            lambda: events.append("interrupt"),
            timeout_s=0.1,
            memory_bytes=10**12,
            last_resort=lambda refusal: events.append(refusal.message),
        ) as guard,
        pytest.raises(QueryRefused),
        guard.working(),
    ):
        until(lambda: any("cap" in event for event in events))
    assert events[0] == "interrupt"
    assert any("time cap of 0.1 s" in event for event in events)
    assert events.index("interrupt") < next(i for i, e in enumerate(events) if "cap" in e)


def test_the_process_growing_past_the_cap_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB does not count single huge values against its own limit."""
    resident = [100]
    monkeypatch.setattr("penstock.serve.guard._resident", lambda: resident[0])
    interrupted = threading.Event()
    with Guard(interrupted.set, timeout_s=30, memory_bytes=10**9) as guard:
        resident[0] = 10**10
        with pytest.raises(QueryRefused, match="memory"), guard.working():
            interrupted.wait(5)
    assert interrupted.is_set()


def test_work_within_the_caps_is_left_alone() -> None:
    calls: list[int] = []
    with Guard(lambda: calls.append(1), timeout_s=5, memory_bytes=10**12, spent_s=1) as guard:
        with guard.working():
            time.sleep(0.2)
        assert 1.2 <= guard.used_s < 3
        time.sleep(0.2)
        assert guard.broken is None
    assert calls == []
