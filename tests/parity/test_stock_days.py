"""gold.stock_bars, gold.stock_daily, gold.top_stocks_daily: minutes, days and their winners."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, in_order, markets
from tests.oracles.plans import STEPS, TRIES, Plan, agree, evolve, plans, tried
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

TRADES, BARS, DAYS = "silver.trades", "gold.stock_bars", "gold.stock_daily"
LATENESS = dt.timedelta(seconds=5)
# A minute before the trading day ends in New York: 18:00 there, on the day the clocks went back.
EVENING = dt.datetime(2026, 11, 1, 22, 59, tzinfo=dt.UTC)
FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def trade(ticker: str, seconds: float, price: Decimal, number: int) -> Row:
    return {
        "ticker": ticker,
        "price": price,
        "ask_price": price,
        "size": 1,
        "side": "buy",
        "notional": price,
        "traded_at": EVENING + dt.timedelta(seconds=seconds),
        "partition": number % 3,
        "offset": number // 3,
    }


def arriving(dice: random.Random, count: int) -> list[Row]:
    """Trades of four minutes, on half seconds, each less than the lateness after its time."""
    meant = [(dice.randrange(480) / 2, dice.uniform(0, 4.9)) for _ in range(count)]
    meant.sort(key=sum)
    return [
        trade(dice.choice(("AKV", "BLW")), at, Decimal(dice.randrange(1, 10**10)) / 10**4, number)
        for number, (at, _) in enumerate(meant)
    ]


def bars_of(dice: random.Random, stocks: int, minutes: int) -> list[Row]:
    """Minutes of several stocks over the end of the day; few prices, so that gains are equal."""
    rows = [
        trade(f"S{stock}", 30 * minute + dice.randrange(30), Decimal(dice.choice((1, 2, 3))), n)
        for n, (minute, stock) in enumerate((m, s) for m in range(minutes) for s in range(stocks))
    ]
    return markets.stock_bars(rows, FAR)


@pytest.mark.parametrize("tries", TRIES)
def test_bars_stream_equals_batch_equals_oracle(spark, jobs, tries):
    table = jobs.tables[TableName.parse(BARS)]

    @tried(tries)
    @given(plan=plans({TRADES: arriving}, most=40))
    def holds(plan: Plan) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, {TRADES: TABLES[TRADES]})
            plan.carry_out(kit)
            rows = plan.fed(TRADES)
            agree(kit, markets.stock_bars(rows, max(r["traded_at"] for r in rows) - LATENESS))
            assert kit.late() == [], "within lateness nothing is late"

    holds()


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", ["gold.stock_daily", "gold.top_stocks_daily"])
def test_days_stream_equals_batch_equals_oracle(spark, jobs, name, tries):
    table = jobs.tables[TableName.parse(name)]
    source = BARS if name == DAYS else DAYS

    @tried(tries)
    @given(dice=st.randoms(use_true_random=False), steps=STEPS)
    def holds(dice: random.Random, steps: list[tuple[int, bool]]) -> None:
        bars = bars_of(dice, 13, 6)
        dice.shuffle(bars)
        states, there = [], 0
        for more, restart in steps:
            there += 4 * more
            rows = bars[:there]
            states.append(({source: rows if name == DAYS else markets.stock_daily(rows)}, restart))
        with tempfile.TemporaryDirectory() as folder:
            kit = Kit(spark, Path(folder), table, {source: TABLES[source]}, changing=[source])
            evolve(kit, states)
            days = markets.stock_daily(bars[:there])
            agree(kit, days if name == DAYS else markets.top_stocks_daily(days))

    holds()


def test_a_late_trade_waits_for_reconcile_and_then_opens_the_minute(spark, jobs, tmp_path):
    kit = Kit(spark, tmp_path, jobs.tables[TableName.parse(BARS)], {TRADES: TABLES[TRADES]})
    rows = [trade("AKV", 10, Decimal(2), 0), trade("AKV", 90, Decimal(3), 1)]
    late = trade("AKV", 5, Decimal(7), 2)
    kit.feed(rows)
    kit.feed([late])
    assert [row["open_price"] for row in kit.rows()] == [2]
    assert kit.outcomes() == {"counted": 2, "late": 1}
    kit.reconcile()
    assert [row["open_price"] for row in kit.rows()] == [7]
    watermark = EVENING + dt.timedelta(seconds=85)
    assert in_order(kit.rows()) == in_order(markets.stock_bars([*rows, late], watermark))
    assert kit.rows() == kit.batch_rows()
