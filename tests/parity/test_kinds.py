"""Every kind, in random lives: the stream's table is the batch's in the end."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from penstock.errors import TransformError
from penstock.model import Group, table
from penstock.testing import Kit
from tests.oracles.plans import lives
from tests.parity.kinds import CASES, Case
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
