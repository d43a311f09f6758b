"""Trades of an imaginary exchange: prices walk, few stocks trade most."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "trades"]

TICKERS = [f"{a}{b}{c}" for a in "ABCDE" for b in "KLMNO" for c in "VWXY"]
_CENT = Decimal("0.0001")
# A trade has no name of its own: one sent again would be another trade.
FLAWS = {"trades": Flaws(late_by=3.0, spoilt=({"size": -1}, {"side": "maybe"}), twice=False)}


def trades(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """An endless run of trades."""
    prices = {ticker: Decimal(dice.randrange(20, 500)) for ticker in TICKERS}
    while True:
        ticker = TICKERS[min(int(dice.paretovariate(0.9)) - 1, len(TICKERS) - 1)]
        step = Decimal(dice.gauss(0, 0.0005)).quantize(Decimal("0.000001"))
        prices[ticker] = max(_CENT, (prices[ticker] * (1 + step)).quantize(_CENT))
        row = {
            "ticker": ticker,
            "price": prices[ticker],
            "ask_price": (prices[ticker] * Decimal("1.0004")).quantize(_CENT),
            "size": dice.randrange(1, 500),
            "side": dice.choice(["buy", "sell"]),
        }
        yield Event("trades", ticker, clock(), row)
