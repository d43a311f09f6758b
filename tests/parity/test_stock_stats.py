"""gold.stock_stats as a stream, in any batching and order, is its batch form and the oracle's."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model.names import TableName
from penstock.testing import Harness

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 11, 1, 9, 30, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("ticker", pa.string()),
        ("price", pa.decimal128(12, 4)),
        ("ask_price", pa.decimal128(12, 4)),
        ("size", pa.int32()),
        ("side", pa.string()),
        ("notional", pa.decimal128(24, 4)),
        ("traded_at", pa.timestamp("us", tz="UTC")),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
LATENESS = dt.timedelta(seconds=2)


def trade(ticker: str, millis: int, price: str, number: int = 0) -> dict:
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


def oracle(rows: list[dict], watermark: dt.datetime) -> list[tuple]:
    """Plain Python, written from the table's description and sharing nothing with the engine."""
    groups: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        second = row["traded_at"].replace(microsecond=0)
        for back in range(5):
            groups[row["ticker"], second - dt.timedelta(seconds=back)].append(row)
    found = []
    for (ticker, start), members in groups.items():
        end = start + dt.timedelta(seconds=5)
        if end > watermark:
            continue
        total = sum(row["price"] for row in members)
        average = (total / len(members)).quantize(Decimal("0.00000001"), ROUND_HALF_UP)
        lowest = min(row["ask_price"] for row in members)
        found.append((ticker, start, end, lowest, len(members), average))
    return sorted(found, key=lambda row: [str(value) for value in row])


def as_tuples(rows: list[dict]) -> list[tuple]:
    return [tuple(row.values()) for row in rows]


@pytest.fixture
def table(jobs):
    return jobs.tables[TableName.parse("gold.stock_stats")]


events = st.tuples(
    st.sampled_from(["AKV", "BLW", "COY"]),
    st.integers(0, 12_000),  # milliseconds after the start
    st.integers(1, 99_999).map(lambda cents: f"{cents / 100:.2f}"),
    st.integers(0, 1_999),  # how much later than its event time it arrives
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    events=st.lists(events, min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    restarts=st.sets(st.integers(0, 4)),
)
def test_stream_equals_batch_equals_oracle(spark, table, events, cuts, restarts):
    arrived = sorted(enumerate(events), key=lambda e: (e[1][1] + e[1][3], e[0]))
    rows = [trade(t, at, price, number) for number, (t, at, price, _) in arrived]
    edges = sorted({0, *(cut for cut in cuts if cut < len(rows)), len(rows)})
    batches = [rows[a:b] for a, b in pairwise(edges)]
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(spark, Path(folder), table, SCHEMA)
        for number, batch in enumerate(batches):
            if number in restarts:
                harness.restart()
            harness.feed(batch)
        streamed, batch_form = harness.rows(), harness.batch_rows()
        assert harness.follower.late == 0, "within lateness nothing is late"
    assert streamed == batch_form
    watermark = max(row["traded_at"] for row in rows) - LATENESS
    assert as_tuples(streamed) == oracle(rows, watermark)


def test_a_row_whose_windows_are_closed_is_late_and_changes_nothing(spark, table, tmp_path):
    harness = Harness(spark, tmp_path, table, SCHEMA)
    harness.feed([trade("AKV", 0, "10"), trade("AKV", 20_000, "11")])
    before = harness.rows()
    harness.feed([trade("AKV", 500, "99")])
    assert harness.rows() == before
    assert harness.follower.late == 1


def test_a_row_late_for_some_windows_counts_in_the_open_ones_only(spark, table, tmp_path):
    harness = Harness(spark, tmp_path, table, SCHEMA)
    harness.feed([trade("AKV", 8_000, "10")])  # watermark 6 s: windows up to [1, 6) are closed
    harness.feed([trade("AKV", 4_000, "20"), trade("AKV", 30_000, "30")])
    counts = {(r["window_start"] - START).total_seconds(): r["trades"] for r in harness.rows()}
    # [0, 5) and [1, 6) were closed when the row at 4 s came; [4, 9) holds the one at 8 s too
    assert counts == {2.0: 1, 3.0: 1, 4.0: 2, 5.0: 1, 6.0: 1, 7.0: 1, 8.0: 1}


def test_a_crash_between_commit_and_memory_repeats_nothing(spark, table, tmp_path):
    harness = Harness(spark, tmp_path, table, SCHEMA)
    harness.feed([trade("AKV", 0, "10"), trade("AKV", 9_000, "11")])
    before = harness.rows()
    harness.restart()
    harness.follower.advance()
    assert harness.rows() == before
    harness.feed([trade("AKV", 9_500, "12"), trade("AKV", 25_000, "13")])
    assert harness.rows() == harness.batch_rows()
