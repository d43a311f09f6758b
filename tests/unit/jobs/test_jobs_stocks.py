"""Minutes and days of stocks as a plain batch: what a trading day is, who wins, and ties."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from tests.oracles import Row, in_order, markets, samples
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark

FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def by_minute(frame):
    """Spark's own windows, as the columns a transform groups by."""
    window = F.window("traded_at", "1 minute")
    return frame.withColumns({"window_start": window["start"], "window_end": window["end"]})


def bar(ticker: str, at: dt.datetime, opened: str, closed: str) -> Row:
    prices = {"open_price": Decimal(opened), "close_price": Decimal(closed)}
    least, greatest = sorted(prices.values())
    return {
        "ticker": ticker,
        "window_start": at,
        "window_end": at + dt.timedelta(minutes=1),
        **prices,
        "min_price": least,
        "max_price": greatest,
        "trades": 2,
        "trading_day": dt.date(2026, 11, 2),
    }


def test_bars_and_days(table, frame, dice):
    trades = markets.silver_trades(samples.sent(samples.trades(dice, 80)))
    for number, row in enumerate(trades):  # over hours, some of them at the same moment
        row["traded_at"] += dt.timedelta(minutes=7 * (number // 3))
    bars = table("gold.stock_bars")(by_minute(frame(trades, "silver.trades"))).toArrow()
    assert types(bars.schema) == types(TABLES["gold.stock_bars"])
    told = markets.stock_bars(trades, FAR)
    assert in_order(bars.to_pylist()) == in_order(told)
    days = table("gold.stock_daily")(frame(told, "gold.stock_bars")).toArrow()
    assert types(days.schema) == types(TABLES["gold.stock_daily"])
    assert in_order(days.to_pylist()) == in_order(markets.stock_daily(told))


def test_of_trades_at_one_moment_the_one_sent_first_opens(table, frame):
    sent = [("3", 1, 0), ("2", 0, 9), ("1", 0, 4)]
    trades = [
        {
            "ticker": "AKV", "price": Decimal(price), "ask_price": Decimal(1), "size": 1,
            "side": "buy", "notional": Decimal(1), "traded_at": samples.START,
            "partition": partition, "offset": offset,
        }
        for price, partition, offset in sent
    ]  # fmt: skip
    rows = by_minute(frame(trades, "silver.trades"))
    (row,) = table("gold.stock_bars")(rows).toArrow().to_pylist()
    assert (row["open_price"], row["close_price"]) == (1, 3)


def test_a_trading_day_begins_at_six_in_the_evening_in_new_york(table, frame):
    """Summer time ends there on 1 November 2026: the same wall clock is an hour later in UTC."""
    begins = {
        dt.datetime(2026, 10, 31, 22, 0, tzinfo=dt.UTC): dt.date(2026, 11, 1),
        dt.datetime(2026, 11, 1, 23, 0, tzinfo=dt.UTC): dt.date(2026, 11, 2),
        dt.datetime(2026, 3, 8, 22, 0, tzinfo=dt.UTC): dt.date(2026, 3, 9),
    }
    minute = dt.timedelta(minutes=1)
    eves = {at - minute: day - dt.timedelta(days=1) for at, day in begins.items()}
    moments = begins | eves
    trades = [
        {
            "ticker": "AKV", "price": Decimal(1), "ask_price": Decimal(1), "size": 1,
            "side": "buy", "notional": Decimal(1), "traded_at": at, "partition": 0, "offset": n,
        }
        for n, at in enumerate(moments)
    ]  # fmt: skip
    bars = table("gold.stock_bars")(by_minute(frame(trades, "silver.trades"))).toArrow()
    assert {r["window_start"]: r["trading_day"] for r in bars.to_pylist()} == moments
    assert {r["window_start"]: r["trading_day"] for r in markets.stock_bars(trades, FAR)} == moments


def test_ten_winners_a_day_and_of_equal_ones_the_first_in_the_alphabet(table, frame):
    later = samples.START + dt.timedelta(hours=1)
    bars = [bar(f"S{n:02}", samples.START, "100", "100.5") for n in range(13)]
    bars += [bar("BEST", samples.START, "0.5", "0.7"), bar("BEST", later, "0.7", "0.6")]
    bars += [bar("LOST", samples.START, "9", "8"), bar("FLAT", samples.START, "9", "9")]
    days = table("gold.stock_daily")(frame(bars, "gold.stock_bars"))
    out = table("gold.top_stocks_daily")(days).toArrow()
    assert types(out.schema) == types(TABLES["gold.top_stocks_daily"])
    ranked = {row["rank"]: row["ticker"] for row in out.to_pylist()}
    assert ranked == {1: "BEST", **{n + 2: f"S{n:02}" for n in range(9)}}
    told = markets.top_stocks_daily(markets.stock_daily(bars))
    assert in_order(out.to_pylist()) == in_order(told)
    (best,) = [row for row in told if row["ticker"] == "BEST"]
    assert (best["gain"], best["gain_percent"]) == (Decimal("0.1"), Decimal("20"))


def test_gains_are_rounded_once_halves_away_from_nought(table, frame):
    """2.5 of a million is 0.00025 percent; a third has no end."""
    bars = [
        bar("HALF", samples.START, "2000000", "2000005"),
        bar("LESS", samples.START, "2000000", "1999995"),
        bar("THIRD", samples.START, "3", "4"),
    ]
    days = table("gold.stock_daily")(frame(bars, "gold.stock_bars")).toArrow().to_pylist()
    found = {row["ticker"]: row["gain_percent"] for row in days}
    assert found == {
        "HALF": Decimal("0.0003"), "LESS": Decimal("-0.0003"), "THIRD": Decimal("33.3333")
    }  # fmt: skip
    assert in_order(days) == in_order(markets.stock_daily(bars))
