"""How long from the moment a row was meant to be sent until it can be read from live silver.trades?

An open-loop producer (its own process) stamps every row with its intended send time. An
independent reader follows the Delta log of the live table by its files alone, sharing no code with
the engine, and notes when each row was first readable. Every row sent must be seen exactly once.

    .venv/bin/python tests/bench/latency.py --rate 10 --rate 2000 --seconds 300
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import sys
import time
from decimal import Decimal
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.settings import Settings

MARK = "BENCH"
COLUMNS = ["ticker", "traded_at", "partition", "offset"]


def produce(rate: float, seconds: float, began) -> None:
    """Send on schedule; a late sender does not move the schedule (no coordinated omission)."""
    from penstock.clients.producer import StreamProducer
    from penstock.runtime.code.bundle import Bundle

    settings = Settings.load()
    streams = Bundle(settings.project, settings.jobs).catalog().streams
    stream = next(s for s in streams.values() if s.topic == "trades")
    producer = StreamProducer(settings, stream, user="demo-producer")
    start = time.time() + 1
    began.value = start
    price = Decimal("10.0000")
    for number in range(int(rate * seconds)):
        intended = start + number / rate
        wait = intended - time.time()
        if wait > 0:
            time.sleep(wait)
        row = {
            "ticker": f"{MARK}{number % 97}",
            "price": price,
            "ask_price": price,
            "size": 1 + number % 1000,
            "side": "buy",
        }
        producer.send(f"{MARK}{number % 97}", row, at=dt.datetime.fromtimestamp(intended, dt.UTC))
    producer.flush()


class LogReader:
    """Follows ``_delta_log`` of a table by listing nothing: it just waits for the next version."""

    def __init__(self, table: Path) -> None:
        self.table = table
        versions = [int(p.stem) for p in (table / "_delta_log").glob("*.json") if p.stem.isdigit()]
        self.next = max(versions) + 1

    def poll(self) -> list[tuple[float, list[dict]]]:
        found = []
        while True:
            path = self.table / "_delta_log" / f"{self.next:020d}.json"
            try:
                lines = path.read_text().splitlines()
            except FileNotFoundError:
                return found
            seen = time.time()
            adds = [json.loads(line).get("add") for line in lines]
            found.append((seen, [a for a in adds if a and a["dataChange"]]))
            self.next += 1


def measure(rate: float, seconds: float, warm_up: float) -> dict:
    table = Settings.load().warehouse / "silver" / "trades"
    reader = LogReader(table)
    began = multiprocessing.Value("d", 0.0)
    sender = multiprocessing.Process(target=produce, args=(rate, seconds, began))
    sender.start()
    expected = int(rate * seconds)
    latencies: list[tuple[float, float]] = []
    places: set[tuple[int, int]] = set()
    deadline = time.time() + seconds + 60
    while len(latencies) < expected and time.time() < deadline:
        if sender.exitcode not in (None, 0):
            raise SystemExit("the producer failed; see above")
        for seen, adds in reader.poll():
            for add in adds:
                rows = pq.read_table(table / add["path"], columns=COLUMNS)
                rows = rows.filter(pc.starts_with(rows["ticker"], MARK))
                places.update(
                    zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
                )
                sent = pc.cast(rows["traded_at"], "int64").to_pylist()
                latencies.extend((at / 1e6, seen - at / 1e6) for at in sent)
        time.sleep(0.005)
    sender.join()
    steady = sorted(delay for at, delay in latencies if at >= began.value + warm_up)
    return {
        "rate": rate,
        "seconds": seconds,
        "sent": expected,
        "seen": len(latencies),
        "distinct": len(places),
        "p50": _quantile(steady, 0.5),
        "p90": _quantile(steady, 0.9),
        "p99": _quantile(steady, 0.99),
        "max": _quantile(steady, 1.0),
        "slowest": _slowest(latencies, began.value),
    }


def _slowest(latencies: list[tuple[float, float]], began: float) -> list[str]:
    """When the worst were: what comes back every minute has a cause."""
    worst: dict[int, float] = {}
    for at, delay in latencies:
        second = int(at - began)
        worst[second] = max(delay, worst.get(second, 0.0))
    listed = sorted(worst.items(), key=lambda item: -item[1])[:8]
    return [f"{delay:.1f} s at {second} s" for second, delay in sorted(listed)]


def _quantile(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * share))], 3) if values else -1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, action="append", help="rows a second; repeatable")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--warm-up", type=float, default=10, help="seconds left out at the start")
    options = parser.parse_args()
    complete = True
    for rate in options.rate or [10, 2000]:
        result = measure(rate, options.seconds, options.warm_up)
        complete = complete and result["seen"] == result["distinct"] == result["sent"]
        print(json.dumps(result), flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
