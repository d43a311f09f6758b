"""Every kind, in random lives: the stream's table is the batch's in the end."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from penstock.errors import TransformError
from penstock.model import Group, table
from penstock.runtime.delta import source
from penstock.testing import Kit
from tests.oracles.plans import lives
from tests.parity.kinds import CASES, START, Case, crowded
from tests.parity.law import check, live, walk_edges

pytestmark = pytest.mark.spark

SEEDS = range(lives(2))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_stream_is_batch(spark, tmp_path, name, seed):
    check(live(spark, tmp_path, CASES[name], seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.changing])
def test_a_correction_of_what_only_grows(spark, tmp_path, name, seed):
    check(live(spark, tmp_path, CASES[name], 100 + seed, corrected=True))


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_amid_those_of_other_keys(spark, tmp_path, seed, corrected):
    case = replace(CASES["session_rekeyed"], make=crowded)
    check(live(spark, tmp_path, case, 200 + seed, 40, corrected=corrected))


def _row(second, key, number):
    return {"k": key, "v": 1, "t": START + dt.timedelta(seconds=second), "n": number}


def test_late_rows_of_renamed_sessions_read_no_more_than_whole_sessions_near_them(
    spark, tmp_path, monkeypatch
):
    case = CASES["session_rekeyed"]
    kit = Kit(spark, tmp_path, case.table, case.schemas)
    for second in range(60):  # "a" is one session; "b" comes in pairs with seven seconds between
        rows = [_row(second, "a", second)] if 38 <= second < 44 else []
        rows += [_row(second, "b", 100 + second)] if second % 8 < 2 else []
        kit.feed(rows)
    kit.feed([_row(42, "c", 200)])
    read, files = [], source.read_files

    def counted(paths, schema):
        found = files(paths, schema)
        read.extend(number for rows in found for number in rows["n"].to_pylist())
        return found

    with monkeypatch.context() as patch:
        patch.setattr(source, "read_files", counted)
        assert kit.reconcile()["changed"] == 1
    # "a" and "b" began before the late row: enough of them to see that, and no more.
    assert set(read) == {40, 41, 42, 43, 140, 141, 200}
    check(kit)


@pytest.mark.parametrize("name", ["offset", "updates", "sliding", "session", "join_left"])
def test_on_every_edge(spark, tmp_path, name):
    walk_edges(spark, tmp_path, CASES[name])


@pytest.mark.parametrize(("name", "alone"), [("sliding_updates", True), ("sliding_rekeyed", False)])
def test_keys_that_moved_are_computed_alone_where_they_stay_the_same(spark, tmp_path, name, alone):
    case = CASES[name]
    assert Kit(spark, tmp_path, case.table, case.schemas).follower.keyed is alone


@table("gold.renamed", inputs={"events": "silver.events"}, kind=Group(by=("k",)), keys=("k",))
def renamed(events):
    return events.groupBy(F.upper("k").alias("k")).agg(F.sum("v").alias("total"))


def test_a_group_under_another_name_is_refused(spark, tmp_path):
    with pytest.raises(TransformError, match="named otherwise"):
        live(spark, tmp_path, Case(renamed), 0)
