"""Trades of an imaginary exchange: prices walk, few stocks trade most, some rows are bad."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = ["Event", "trades"]

TICKERS = [f"{a}{b}{c}" for a in "ABCDE" for b in "KLMNO" for c in "VWXY"]
_CENT = Decimal("0.0001")


@dataclass(frozen=True)
class Event:
    """A row to send, or raw bytes that break the contract."""

    key: str
    at: dt.datetime
    row: dict[str, Any] | None
    raw: bytes | None = None


def trades(seed: int, *, late: float = 0.01, bad: float = 0.005) -> Iterator[Event]:
    """An endless, repeatable run of trades.

    ``late`` of the rows carry an event time up to three seconds back; ``bad`` of them break the
    contract in one of several ways.
    """
    dice = random.Random(seed)
    prices = {ticker: Decimal(dice.randrange(20, 500)) for ticker in TICKERS}
    while True:
        ticker = TICKERS[min(int(dice.paretovariate(0.9)) - 1, len(TICKERS) - 1)]
        step = Decimal(dice.gauss(0, 0.0005)).quantize(Decimal("0.000001"))
        prices[ticker] = max(_CENT, (prices[ticker] * (1 + step)).quantize(_CENT))
        ask = (prices[ticker] * Decimal("1.0004")).quantize(_CENT)
        delay = dt.timedelta(seconds=dice.uniform(0, 3)) if dice.random() < late else dt.timedelta()
        row = {
            "ticker": ticker,
            "price": prices[ticker],
            "ask_price": ask,
            "size": dice.randrange(1, 500),
            "side": dice.choice(["buy", "sell"]),
        }
        now = dt.datetime.now(dt.UTC)
        if dice.random() < bad:
            yield _spoilt(dice, ticker, now, row)
        else:
            yield Event(ticker, now - delay, row)


def _spoilt(dice: random.Random, ticker: str, now: dt.datetime, row: dict[str, Any]) -> Event:
    """One of the ways in which real feeds go wrong."""
    kind = dice.randrange(4)
    if kind == 0:
        return Event(ticker, now, {**row, "size": -1})
    if kind == 1:
        return Event(ticker, now + dt.timedelta(days=4000), row)
    if kind == 2:
        return Event(ticker, now, None, raw=b"not avro at all")
    return Event(ticker, now, {**row, "side": "maybe"})
