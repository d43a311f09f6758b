"""gold.stock_stats as a stream, in any batching and order, is its batch form and the oracle's."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given

from penstock.model.names import TableName
from penstock.testing import Kit
from tests.oracles import Row, in_order, markets
from tests.oracles.plans import Plan, agree, few, plans
from tests.oracles.samples import START
from tests.oracles.shapes import TABLES

pytestmark = pytest.mark.spark

INPUT = "silver.trades"
SCHEMAS = {INPUT: TABLES[INPUT]}
LATENESS = dt.timedelta(seconds=2)


def trade(ticker: str, millis: int, price: str, number: int = 0) -> Row:
    amount = Decimal(price)
    return {
        "ticker": ticker,
        "price": amount,
        "ask_price": amount + Decimal("0.5"),
        "size": 1,
        "side": "buy",
        "notional": amount,
        "traded_at": START + dt.timedelta(milliseconds=millis),
        "partition": 0,
        "offset": number,
    }


def arriving(dice: random.Random, count: int) -> list[Row]:
    """Trades of twelve seconds, each less than the lateness after its time."""
    meant = [
        (dice.choice(("AKV", "BLW")), dice.randrange(12_000), dice.randrange(2_000))
        for _ in range(count)
    ]
    meant.sort(key=lambda trade: trade[1] + trade[2])
    return [
        trade(ticker, at, f"{dice.randrange(1, 99_999) / 100:.2f}", number)
        for number, (ticker, at, _) in enumerate(meant)
    ]


def finals(kit: Kit) -> dict[float, int]:
    """Trades in each final window, by the seconds from the start to the window's."""
    return {
        (row["window_start"] - START).total_seconds(): row["trades"]
        for row in kit.rows()
        if row["is_final"]
    }


@pytest.fixture
def table(jobs):
    return jobs.tables[TableName.parse("gold.stock_stats")]


@few
@given(plan=plans({INPUT: arriving}, most=40))
def test_stream_equals_batch_equals_oracle(spark, table, plan: Plan):
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(spark, Path(folder), table, SCHEMAS)
        plan.carry_out(kit)
        rows = plan.fed(INPUT)
        watermark = max(row["traded_at"] for row in rows) - LATENESS
        agree(kit, markets.stock_stats(rows, watermark))
        assert kit.late() == [], "within lateness nothing is late"


def test_a_row_whose_windows_are_closed_is_late_and_changes_nothing(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    kit.feed([trade("AKV", 0, "10"), trade("AKV", 20_000, "11")])
    before = kit.rows()
    kit.feed([trade("AKV", 500, "99", 2)])
    assert kit.rows() == before
    # of the five windows of each row
    assert kit.outcomes() == {"counted": 10, "late": 5}


def test_a_row_late_for_some_windows_counts_in_the_open_ones_only(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    kit.feed([trade("AKV", 8_000, "10")])  # watermark 6 s: windows up to [1, 6) are closed
    kit.feed([trade("AKV", 4_000, "20", 1), trade("AKV", 30_000, "30", 2)])
    # [0, 5) and [1, 6) were closed when the row at 4 s came; [4, 9) holds the one at 8 s too
    assert finals(kit) == {2.0: 1, 3.0: 1, 4.0: 2, 5.0: 1, 6.0: 1, 7.0: 1, 8.0: 1}


def test_reconcile_makes_late_rows_count(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    rows = [trade("AKV", 0, "10"), trade("AKV", 20_000, "11", 1), trade("AKV", 500, "99", 2)]
    for row in rows:
        kit.feed([row])
    kit.reconcile()
    agree(kit, markets.stock_stats(rows, START + dt.timedelta(seconds=18)))


def test_a_crash_between_commit_and_memory_repeats_nothing(spark, table, tmp_path):
    kit = Kit(spark, tmp_path, table, SCHEMAS)
    kit.feed([trade("AKV", 0, "10"), trade("AKV", 9_000, "11", 1)])
    before = kit.rows()
    kit.restart()
    kit.advance()
    assert kit.rows() == before
    kit.feed([trade("AKV", 9_500, "12", 2), trade("AKV", 25_000, "13", 3)])
    assert in_order(kit.rows()) == in_order(kit.batch_rows())
