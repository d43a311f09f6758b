"""Trades under load, and what bronze, silver and gold must come to, recounted in plain Python."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, defaultdict
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tests.live import Feed, read, wait_for

__all__ = ["Load", "check_exact", "drained"]

LATENESS = dt.timedelta(seconds=2)  # of gold.stock_stats


class Load:
    """Traffic in the background until told to stop."""

    def __init__(self, feed: Feed, ticker: str, rate: float = 100) -> None:
        self.feed, self.ticker, self.rate = feed, ticker, rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self.feed.flush()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(1 / self.rate):
            number += 1
            self.feed.send(
                f"{self.ticker}{number % 7}", size=number, price=f"{1 + number % 89}.2500"
            )


def recount(rows: list[dict], until: dt.datetime) -> Counter:
    """Five-second windows every second, in plain Python from what the broker acknowledged."""
    groups: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        for start in window_starts(row["extra"]):
            groups[row["ticker"], start].append(row)
    found: Counter = Counter()
    for (ticker, start), members in groups.items():
        if start + dt.timedelta(seconds=5) <= until:
            mean = sum(m["price"] for m in members) / len(members)
            mean = mean.quantize(Decimal("0.00000001"), ROUND_HALF_UP)
            low = min(m["ask_price"] for m in members)
            found[ticker, start, low, len(members), mean] += 1
    return found


def window_starts(moment: dt.datetime) -> list[dt.datetime]:
    second = moment.replace(microsecond=0)
    return [second - dt.timedelta(seconds=back) for back in range(5)]


def perhaps_late(home) -> set[tuple]:
    """Windows that a row may have missed because it reached bronze too long after a newer one.

    A producer keeps the order within a partition only: on a machine that stalls, one partition can
    run ahead of another by more than the lateness. How tables above gather bronze's commits makes
    fewer rows late than this, never more.
    """
    arrived = {
        (r["partition"], r["offset"]): r["ingested_at"]
        for r in read(home, "bronze", "trades").to_pylist()
    }
    commits: dict[dt.datetime, list[dict]] = defaultdict(list)
    for row in read(home, "silver", "trades").to_pylist():
        commits[arrived[row["partition"], row["offset"]]].append(row)
    newest = dt.datetime.min.replace(tzinfo=dt.UTC) + LATENESS
    found = set()
    for _, rows in sorted(commits.items()):
        found |= {
            (row["ticker"], start)
            for row in rows
            if row["traded_at"] < newest - LATENESS
            for start in window_starts(row["traded_at"])
        }
        newest = max([newest, *(row["traded_at"] for row in rows)])
    return found


def prefixed(home, layer: str, name: str, prefix: str) -> pa.Table:
    rows = read(home, layer, name)
    return rows.filter(pc.starts_with(rows["ticker"], prefix))


def final_stats(home, prefix: str) -> pa.Table:
    """Gold's rows that will not change any more."""
    rows = prefixed(home, "gold", "stock_stats", prefix)
    return rows.filter(rows["is_final"])


def check_exact(home, feed: Feed, prefix: str) -> None:
    """Bronze, silver and gold against the broker's own acknowledgements."""
    sent = {k: v for k, v in feed.acked.items() if v["ticker"].startswith(prefix)}
    silver = prefixed(home, "silver", "trades", prefix).to_pylist()
    places = Counter((row["partition"], row["offset"]) for row in silver)
    assert places == Counter(sent.keys()), "silver: each acknowledged row exactly once"
    bronze = Counter(
        (r["partition"], r["offset"]) for r in read(home, "bronze", "trades").to_pylist()
    )
    assert max(bronze.values()) == 1
    assert set(sent) <= set(bronze)
    until = max(row["extra"] for row in sent.values()) - LATENESS
    got = Counter(
        (r["ticker"], r["window_start"], r["min_ask_price"], r["trades"], r["avg_price"])
        for r in final_stats(home, prefix).to_pylist()
        if r["window_end"] <= until
    )
    expected = recount(list(sent.values()), until)
    doubtful = {w for w in perhaps_late(home) if w[0].startswith(prefix)}
    assert len(doubtful) * 10 <= len(expected), "the load came so disordered that nothing is shown"
    assert max(Counter(row[:2] for row in got.elements()).values()) == 1, "gold: a window once"
    assert _without(got, doubtful) == _without(expected, doubtful), (
        "gold: every final window, with the recounted values"
    )


def _without(windows: Counter, doubtful: set[tuple]) -> Counter:
    return Counter({row: n for row, n in windows.items() if row[:2] not in doubtful})


def drained(home, feed: Feed, prefix: str) -> None:
    """Until silver holds all that was sent, and gold's watermark has passed the newest of it."""
    sent = {k: v for k, v in feed.acked.items() if v["ticker"].startswith(prefix)}
    until = max(row["extra"] for row in sent.values()) - LATENESS

    def in_silver() -> bool:
        return prefixed(home, "silver", "trades", prefix).num_rows >= len(sent)

    def closed() -> bool:
        """Windows close in order: when the last one before ``until`` is there, all are."""
        newest = pc.max(final_stats(home, prefix)["window_end"]).as_py()
        return newest > until - dt.timedelta(seconds=1)

    wait_for("silver to drain", in_silver)
    wait_for("gold to drain", closed)
