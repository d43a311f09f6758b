"""Bugs put in on purpose: the law must notice each of them."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from penstock.runtime.kinds import batch, enriched, geometry, reconcile
from penstock.runtime.kinds import timed as timed_module
from tests.parity.kinds import CASES
from tests.parity.law import check, live, walk_edges

pytestmark = pytest.mark.spark


def caught(spark, tmp_path, name: str, seeds: range = range(6)) -> bool:
    """Does any of some random lives break the law?"""
    for seed in seeds:
        try:
            check(live(spark, tmp_path / str(seed), CASES[name], seed))
        except AssertionError:
            return True
    return False


def test_a_wrong_boundary_is_noticed(spark, tmp_path, monkeypatch):
    """A window is still open when the watermark is at its very end."""
    original = geometry.Geometry.limit
    monkeypatch.setattr(
        geometry.Geometry, "limit", lambda self, watermark: original(self, watermark) - 1
    )
    # the batch form stays as it was, as a user's own recount would
    shape = batch.geometry_of

    def right(kind, arguments):
        made = shape(kind, arguments)
        made.limit = lambda watermark: original(made, watermark)
        return made

    monkeypatch.setattr(batch, "geometry_of", right)
    with pytest.raises(AssertionError):
        walk_edges(spark, tmp_path, CASES["updates"])


def test_a_lost_late_row_is_noticed(spark, tmp_path, monkeypatch):
    """Late rows are dropped instead of being listed."""
    monkeypatch.setattr(timed_module.TimedFollower, "set_late", lambda self, rows: None)
    assert caught(spark, tmp_path, "hopping")


def test_a_reconcile_that_forgets_a_window_is_noticed(spark, tmp_path, monkeypatch):
    original = reconcile._touched
    monkeypatch.setattr(reconcile, "_touched", lambda table, late: original(table, late)[1:])
    assert caught(spark, tmp_path, "hopping")


def test_a_join_on_the_latest_version_is_noticed(spark, tmp_path, monkeypatch):
    """The dimension as it is now, not as it was at the fact's time."""

    def latest(facts, dimensions, kind):
        for argument, dimension in dimensions.items():
            versions = dimension.select(F.struct(*dimension.columns).alias(argument))
            condition = F.col(f"{argument}.valid_to").isNull()
            for name in kind.by:
                condition = condition & (F.col(name) == F.col(f"{argument}.{name}"))
            facts = facts.join(versions, condition, "left")
        return facts

    monkeypatch.setattr(enriched, "as_of", latest)
    assert caught(spark, tmp_path, "enrich")
