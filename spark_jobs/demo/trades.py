"""Trades of an imaginary exchange: prices walk, few stocks trade most."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "trades"]

TICKERS = [f"{a}{b}{c}" for a in "ABCDEFGH" for b in "KLMNOPQR" for c in "UVWXYZ"]
# The busiest of 384 stocks has a tenth of all trades, half of the stocks a tenth together.
_BUSY = list(accumulate((rank + 2) ** -1.1 for rank in range(len(TICKERS))))
_CENT = Decimal("0.0001")
# A trade has no name of its own: one sent again would be another trade.
FLAWS = {"trades": Flaws(late_by=3.0, spoilt=({"size": -1}, {"side": "maybe"}), twice=False)}


def trades(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """An endless run of trades."""
    prices = {ticker: Decimal(dice.randrange(20, 500)) for ticker in TICKERS}
    while True:
        ticker = dice.choices(TICKERS, cum_weights=_BUSY)[0]
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
