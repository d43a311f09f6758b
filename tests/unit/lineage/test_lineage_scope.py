"""Which input rows belong to a row, kind by kind, held against plain Python over random rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_world import STAMP, at

from penstock.lineage.look import columns_at, sharing
from penstock.lineage.scope import match, telling
from penstock.runtime.delta.log import DeltaLog

Row = dict[str, Any]
SECOND = 1_000_000
ONE_INPUT = {"inputs": {"rows": "silver.rows"}}
TWO_INPUTS = {"inputs": {"left": "silver.left", "right": "silver.right"}}


def seconds(number: float) -> dt.timedelta:
    return dt.timedelta(seconds=number)


# kind -> what it declares, which input, a row of the table, and the rule in plain Python
CASES: dict[str, tuple[Row, str, Row, Callable[[Row], bool]]] = {
    "window": (
        {**ONE_INPUT, "kind": "window", "on": "t", "keys": ["k", "window_start"],
         "size_us": 10 * SECOND},
        "rows",
        {"k": "a", "window_start": at(20)},
        lambda r: r["k"] == "a" and at(20) <= r["t"] < at(30),
    ),
    "window of a null key": (
        {**ONE_INPUT, "kind": "window", "on": "t", "keys": ["k", "window_start"],
         "size_us": 10 * SECOND},
        "rows",
        {"k": None, "window_start": at(20)},
        lambda r: r["k"] is None and at(20) <= r["t"] < at(30),
    ),
    "session": (
        {**ONE_INPUT, "kind": "session", "on": "t", "by": ["k"], "gap_us": 5 * SECOND},
        "rows",
        {"k": "b", "window_start": at(7), "window_end": at(31)},
        lambda r: r["k"] == "b" and at(7) <= r["t"] < at(31),
    ),
    "sliding": (
        {**ONE_INPUT, "kind": "sliding", "on": "t", "by": ["k"], "size_us": 15 * SECOND},
        "rows",
        {"k": "a", "window_end": at(40)},
        lambda r: r["k"] == "a" and at(25) < r["t"] <= at(40),
    ),
    "interval join, left": (
        {**TWO_INPUTS, "kind": "interval_join", "on": "t", "right_on": "t", "by": ["k"],
         "before_us": 3 * SECOND, "after_us": 8 * SECOND},
        "left",
        {"k": "a", "t": at(30)},
        lambda r: r["k"] == "a" and r["t"] == at(30),
    ),
    "interval join, right": (
        {**TWO_INPUTS, "kind": "interval_join", "on": "t", "right_on": "t", "by": ["k"],
         "before_us": 3 * SECOND, "after_us": 8 * SECOND},
        "right",
        {"k": "a", "t": at(30)},
        lambda r: r["k"] == "a" and at(27) <= r["t"] <= at(38),
    ),
    "enrich, facts": (
        {**TWO_INPUTS, "kind": "enrich", "on": "t", "by": ["k"], "keys": ["n"]},
        "left",
        {"n": 7, "k": "a", "t": at(30)},
        lambda r: r["n"] == 7,
    ),
    "enrich, dimension": (
        {**TWO_INPUTS, "kind": "enrich", "on": "t", "by": ["k"], "keys": ["n"]},
        "right",
        {"n": 7, "k": "a", "t": at(30)},
        lambda r: r["k"] == "a"
        and (r["valid_from"] is None or r["valid_from"] <= at(30))
        and (r["valid_to"] is None or r["valid_to"] > at(30)),
    ),
    "enrich, nobody": (
        {**TWO_INPUTS, "kind": "enrich", "on": "t", "by": ["k"], "keys": ["n"]},
        "right",
        {"n": 7, "k": None, "t": at(30)},
        lambda r: False,
    ),
    "group": (
        {**ONE_INPUT, "kind": "group", "by": ["k"]},
        "rows",
        {"k": None, "total": 1},
        lambda r: r["k"] is None,
    ),
    "totals": (
        {**ONE_INPUT, "kind": "totals", "by": ["k", "n"]},
        "rows",
        {"k": "a", "n": 3, "total": 1},
        lambda r: r["k"] == "a" and r["n"] == 3,
    ),
    "latest, with places": (
        {**ONE_INPUT, "kind": "latest", "by": ["k"]},
        "rows",
        {"k": "a", "partition": 1, "offset": 33},
        lambda r: (r["partition"], r["offset"]) == (1, 33),
    ),
    "rows": (
        {**ONE_INPUT, "kind": "rows"},
        "rows",
        {"x": 1, "partition": 0, "offset": 20},
        lambda r: (r["partition"], r["offset"]) == (0, 20),
    ),
}  # fmt: skip

INPUT = pa.schema(
    [("k", pa.string()), ("n", pa.int64()), ("t", STAMP), ("valid_from", STAMP),
     ("valid_to", STAMP), ("partition", pa.int32()), ("offset", pa.int64())]
)  # fmt: skip


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A table of 400 random rows in four files."""
    dice = random.Random(11)
    folder = tmp_path_factory.mktemp("held")
    DeltaLog.create(folder, INPUT)
    rows = []
    for number in range(400):
        begin = at(dice.randrange(60))
        row = {
            "k": dice.choice(["a", "b", None]),
            "n": dice.randrange(10),
            "t": at(dice.randrange(60)),
            "valid_from": dice.choice([None, begin]),
            "valid_to": dice.choice([None, begin + seconds(dice.randrange(1, 20))]),
            "partition": number % 2,
            "offset": number // 2,
        }
        rows.append(row)
    files = []
    for part in range(4):
        files.append(str(folder / f"part-{part}.parquet"))
        some = rows[part::4]
        pq.write_table(pa.Table.from_pylist(some, schema=INPUT), files[-1])
    return folder, files, rows


@pytest.mark.parametrize("case", CASES)
def test_the_rows_of_a_kind_are_those_its_rule_says(held, case):
    folder, files, rows = held
    declared, argument, row, rule = CASES[case]
    how = match(declared, argument, row.keys(), INPUT.names)
    assert how is not None
    scope = pa.Table.from_pylist([row])
    found = sharing(columns_at(folder), files, scope, how.tests, ["partition", "offset"])
    wanted = sorted((r["partition"], r["offset"]) for r in rows if rule(r))
    assert found is not None
    assert sorted((r["partition"], r["offset"]) for r in found.rows.to_pylist()) == wanted
    assert found.count == len(wanted)
    assert bool(wanted) != (case == "enrich, nobody"), "a rule that nothing passes tests nothing"
    for partition, low, high, count in found.places:
        mine = [offset for p, offset in wanted if p == partition]
        assert (low, high, count) == (min(mine), max(mine), len(mine))


def test_rows_of_several_are_found_together_and_once(held):
    folder, files, rows = held
    declared, argument, _, _ = CASES["window"]
    windows = [{"k": k, "window_start": at(start)} for k in ("a", "b") for start in (0, 5)]
    how = match(declared, argument, windows[0].keys(), INPUT.names)
    found = sharing(columns_at(folder), files, pa.Table.from_pylist(windows), how.tests, [])
    assert found.count == sum(r["k"] is not None and at(0) <= r["t"] < at(15) for r in rows)


@pytest.mark.parametrize(
    ("kind", "has", "given"),
    [
        ("rows", {"k"}, {"k"}),
        ("window", {"k", "window_start"}, {"key", "value"}),
        ("group", {"other"}, {"k"}),
        ("totals", {"k"}, {"key"}),
        ("history", {"k"}, {"key"}),
        ("session", {"k", "window_start"}, {"k", "t"}),
        ("outcomes", {"k"}, {"k"}),
    ],
)
def test_where_columns_do_not_tell_nothing_is_claimed(kind, has, given):
    declared = {**ONE_INPUT, "kind": kind, "by": ["k"], "keys": ["k"], "on": "t", "size_us": 1}
    assert match(declared, "rows", has, given) is None


def test_only_a_join_may_find_nothing():
    for case, (declared, argument, row, _) in CASES.items():
        how = match(declared, argument, row.keys(), INPUT.names)
        assert how.optional == (argument == "right"), case


def test_types_that_do_not_compare_are_no_answer(held):
    folder, files, _ = held
    declared = {**ONE_INPUT, "kind": "group", "by": ["n"]}
    how = match(declared, "rows", ["n"], INPUT.names)
    scope = pa.table({"n": [["not", "a", "number"]]})
    assert sharing(columns_at(folder), files, scope, how.tests, []) is None


def test_what_the_next_step_needs_is_kept():
    declared = {"keys": ["k", "window_start"], "by": ["k"], "on": "t"}
    assert telling(declared) == ["k", "window_start", "window_end", "partition", "offset", "t"]
