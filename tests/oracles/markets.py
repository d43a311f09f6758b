"""Trades and the moving picture of each stock."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

from tests.oracles import Row, start_of_window

__all__ = ["silver_trades", "stock_stats"]


def silver_trades(rows: list[Row]) -> list[Row]:
    """Each trade with price times size."""
    return [
        {
            "ticker": row["ticker"],
            "price": row["price"],
            "ask_price": row["ask_price"],
            "size": row["size"],
            "side": row["side"],
            "notional": row["price"] * row["size"],
            "traded_at": row["event_time"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in rows
    ]


def stock_stats(trades: list[Row], watermark: dt.datetime) -> list[Row]:
    """Five seconds, every second, final once the watermark has reached the window's end."""
    groups: dict[tuple[str, dt.datetime], list[Row]] = defaultdict(list)
    for row in trades:
        newest = start_of_window(row["traded_at"], dt.timedelta(seconds=1))
        for back in range(5):
            groups[row["ticker"], newest - dt.timedelta(seconds=back)].append(row)
    found = []
    for (ticker, start), members in groups.items():
        end = start + dt.timedelta(seconds=5)
        total = sum((row["price"] for row in members), Decimal(0))
        found.append(
            {
                "ticker": ticker,
                "window_start": start,
                "window_end": end,
                "min_ask_price": min(row["ask_price"] for row in members),
                "trades": len(members),
                "avg_price": (total / len(members)).quantize(Decimal("1e-8"), ROUND_HALF_UP),
                "is_final": end <= watermark,
            }
        )
    return found
