"""Trades, the moving picture of each stock, its minutes, its days, and the days' winners."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from tests.oracles import Row, start_of_window

__all__ = ["silver_trades", "stock_bars", "stock_daily", "stock_stats", "top_stocks_daily"]


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


def stock_bars(trades: list[Row], watermark: dt.datetime) -> list[Row]:
    """Whole minutes that the watermark has passed."""
    minute = dt.timedelta(minutes=1)
    groups: dict[tuple[str, dt.datetime], list[Row]] = defaultdict(list)
    for row in trades:
        groups[row["ticker"], start_of_window(row["traded_at"], minute)].append(row)
    found = []
    for (ticker, start), members in groups.items():
        if start + minute > watermark:
            continue
        members.sort(key=lambda row: (row["traded_at"], row["partition"], row["offset"]))
        found.append(
            {
                "ticker": ticker,
                "window_start": start,
                "window_end": start + minute,
                "open_price": members[0]["price"],
                "close_price": members[-1]["price"],
                "min_price": min(row["price"] for row in members),
                "max_price": max(row["price"] for row in members),
                "trades": len(members),
                "trading_day": _trading_day(start),
            }
        )
    return found


def _trading_day(at: dt.datetime) -> dt.date:
    """Six in the evening in New York is already tomorrow's."""
    there = at.astimezone(ZoneInfo("America/New_York"))
    tomorrow = there.hour >= 18
    return there.date() + dt.timedelta(days=1 if tomorrow else 0)


def stock_daily(bars: list[Row]) -> list[Row]:
    """From the first minute's open to the last one's close."""
    groups: dict[tuple[str, dt.date], list[Row]] = defaultdict(list)
    for row in bars:
        groups[row["ticker"], row["trading_day"]].append(row)
    found = []
    for (ticker, day), minutes in groups.items():
        first = min(minutes, key=lambda row: row["window_start"])["open_price"]
        last = max(minutes, key=lambda row: row["window_start"])["close_price"]
        found.append(
            {
                "ticker": ticker,
                "trading_day": day,
                "open_price": first,
                "close_price": last,
                "min_price": min(row["min_price"] for row in minutes),
                "max_price": max(row["max_price"] for row in minutes),
                "trades": sum(row["trades"] for row in minutes),
                "gain": last - first,
                "gain_percent": _percent(last - first, first),
            }
        )
    return found


def _percent(part: Decimal, whole: Decimal) -> Decimal:
    """To the fourth digit, halves away from nought, exactly."""
    exact = Fraction(part) * 1_000_000 / Fraction(whole)
    size = (abs(exact.numerator) * 2 + exact.denominator) // (2 * exact.denominator)
    return Decimal(-size if exact < 0 else size) / 10_000


def top_stocks_daily(days: list[Row]) -> list[Row]:
    """At most ten a day, winners only."""
    found = []
    for day in {row["trading_day"] for row in days}:
        won = [row for row in days if row["trading_day"] == day and row["gain"] > 0]
        won.sort(key=lambda row: (-row["gain_percent"], row["ticker"]))
        found += [
            {
                "trading_day": day,
                "rank": rank,
                **{
                    name: row[name]
                    for name in ("ticker", "open_price", "close_price", "gain", "gain_percent")
                },
            }
            for rank, row in enumerate(won[:10], 1)
        ]
    return found
