"""Send demo traffic at a steady rate until told to stop.

Example: python -m spark_jobs.demo --rate 20 --seconds 60
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import threading
import time

from penstock.clients.producer import StreamProducer
from penstock.settings import Settings
from spark_jobs.bronze.trades import TRADES
from spark_jobs.demo.trades import trades


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.demo", description=__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="rows a second (default 20)")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this long; 0 is never")
    parser.add_argument("--seed", type=int, default=7, help="same seed, same rows (default 7)")
    parser.add_argument("--late", type=float, default=0.01, help="share of late rows")
    parser.add_argument(
        "--bad", type=float, default=0.005, help="share of rows that break the contract"
    )
    options = parser.parse_args()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())

    producer = StreamProducer(Settings.load(), TRADES, user="demo-producer")
    started = time.monotonic()
    events = trades(options.seed, late=options.late, bad=options.bad)
    for sent in itertools.count():
        due = started + sent / options.rate
        if stopping.wait(max(0.0, due - time.monotonic())):
            break
        if options.seconds and time.monotonic() - started >= options.seconds:
            break
        event = next(events)
        if event.row is not None:
            producer.send(event.key, event.row, at=event.at)
        else:
            producer.send_raw(event.key.encode(), event.raw, at=event.at)
    left = producer.flush()
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
