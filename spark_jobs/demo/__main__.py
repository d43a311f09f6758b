"""Send demo traffic at a steady rate until told to stop.

Example: python -m spark_jobs.demo --rate 20 --only trades,readings --seconds 60
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import threading
import time
from collections.abc import Sequence

from penstock.clients import Stopping, StreamProducer
from penstock.model import Stream
from penstock.settings import Settings
from spark_jobs.bronze.app_logs import APP_LOGS
from spark_jobs.bronze.app_requests import APP_REQUESTS
from spark_jobs.bronze.card_payments import CARD_PAYMENTS
from spark_jobs.bronze.clicks import CLICKS
from spark_jobs.bronze.connections import CONNECTIONS
from spark_jobs.bronze.hotel_events import HOTEL_EVENTS
from spark_jobs.bronze.machine_readings import MACHINE_READINGS
from spark_jobs.bronze.payment_outcomes import PAYMENT_OUTCOMES
from spark_jobs.bronze.readings import READINGS
from spark_jobs.bronze.returns import RETURNS
from spark_jobs.bronze.sales import SALES
from spark_jobs.bronze.searches import SEARCHES
from spark_jobs.bronze.shipments import SHIPMENTS
from spark_jobs.bronze.song_plays import SONG_PLAYS
from spark_jobs.bronze.trades import TRADES
from spark_jobs.bronze.truck_positions import TRUCK_POSITIONS
from spark_jobs.demo.event import Event, Shares, wall_clock
from spark_jobs.demo.sources import STREAMS, merged
from spark_jobs.demo.users import change_rows

_BRONZE: tuple[Stream, ...] = (
    SONG_PLAYS, MACHINE_READINGS, CARD_PAYMENTS, PAYMENT_OUTCOMES, CONNECTIONS, HOTEL_EVENTS,
    APP_REQUESTS,
    TRADES, READINGS, TRUCK_POSITIONS, CLICKS, SHIPMENTS, SALES, RETURNS,
    SEARCHES, APP_LOGS,
)  # fmt: skip
_ANOTHER_TIME = dt.timedelta(seconds=0.3)
_CHANGE_EVERY = 20.0  # seconds between changes of captured rows: often enough to see history


def main() -> int:
    options = _options()
    with Stopping() as stopping:
        return _run(options, stopping)


def _run(options: argparse.Namespace, stopping: Stopping) -> int:
    settings = Settings.load()
    producers = {
        stream.name.name: StreamProducer(settings, stream, user="demo-producer")
        for stream in _BRONZE
        if stream.name.name in options.only
    }
    if "users" in options.only:
        _keep_changing_rows(settings, options.seed, stopping)
    shares = Shares(options.late, options.duplicate, options.bad)
    started = time.monotonic()
    for due, event in merged(tuple(producers), options.rate, options.seed, shares):
        if options.seconds and due >= options.seconds:
            break
        if stopping.wait(max(0.0, started + due - time.monotonic())):
            break
        _send(producers[event.stream], event)
    if not producers:
        stopping.wait(options.seconds or None)
    stopping.set()
    return 1 if sum(producer.close(2.0) for producer in producers.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.demo", description=__doc__)
    parser.add_argument(
        "--rate", type=float, default=20.0, help="trades a second; the rest keeps its proportion"
    )
    parser.add_argument("--seconds", type=float, default=0, help="stop after this long; 0 is never")
    parser.add_argument(
        "--seed", type=int, default=7, help="same seed, same choices (default 7); times are now's"
    )
    parser.add_argument("--late", type=float, default=0.01, help="share of late rows")
    parser.add_argument("--duplicate", type=float, default=0.005, help="share of rows sent again")
    parser.add_argument(
        "--bad", type=float, default=0.005, help="share of rows that break the contract"
    )
    names = (*STREAMS, "users")
    parser.add_argument(
        "--only", type=_listed(names), default=names, help=f"some of {','.join(names)}"
    )
    return parser.parse_args()


def _listed(names: Sequence[str]):  # type: ignore[no-untyped-def]
    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(part.strip() for part in text.split(",") if part.strip())
        unknown = [name for name in chosen if name not in names]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(
                f"there is no {', '.join(unknown) or 'empty choice'}; choose of {', '.join(names)}"
            )
        return chosen

    return parse


def _send(producer: StreamProducer, event: Event) -> None:
    """Unchecked: some rows break their contract on purpose.

    A record that has another time than now (late, again, from a machine that was offline) says when
    it was sent, so that nobody who measures takes that for slowness.
    """
    value = event.raw if event.row is None else producer.encode(event.row)
    now = wall_clock()
    away = abs(now - event.at) > _ANOTHER_TIME
    headers = [("sent", now.isoformat().encode())] if away else []
    producer.send_raw(event.key.encode(), value, at=event.at, headers=headers)


def _keep_changing_rows(settings: Settings, seed: int, stopping: threading.Event) -> None:
    """Beside the traffic, so that a slow database never holds a row up. Gives up when refused."""
    dice = random.Random(seed)

    def run() -> None:
        while not stopping.wait(_CHANGE_EVERY):
            if not change_rows(settings, dice):
                sys.stderr.write(
                    "The shop's database is not to be had: its rows stay as they are.\n"
                )
                return

    threading.Thread(target=run, name="changes", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
