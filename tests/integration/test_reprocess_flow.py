"""A changed transformation goes live on the real platform, while readers poll."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.cli.asking import ask
from penstock.errors import PenstockError, QualityFailed, UsageError
from penstock.quality.gate import Gate
from penstock.quality.results import history
from penstock.reprocess.backfill import Backfill
from penstock.reprocess.comparison import Expected, Wishes
from penstock.reprocess.plan import build_plan
from penstock.reprocess.release import NotWithin
from penstock.reprocess.status import statuses
from penstock.runtime.registry import Registry
from penstock.serve.query import run_query
from tests.integration.reprocess_world import GOLD, World, changing
from tests.live import wait_for
from tests.readers import Poller, bag, by_delta_rs, judge, rebuilt, swaps

pytestmark = [pytest.mark.platform, pytest.mark.spark, pytest.mark.timeout(1200)]

EDIT = ('F.count(F.lit(1)).alias("trades"),',
        'F.count(F.lit(1)).alias("trades"),\n        F.max("size").alias("largest"),')  # fmt: skip
FILTER = ("return trades.groupBy(", 'return trades.where("size <> 13").groupBy(')


SUITE = """
import great_expectations.expectations as gxe
from penstock.quality import blocking, suite

SUITE = suite(
    "gold.stock_stats",
    blocking(gxe.ExpectColumnValuesToBeBetween(column="trades", max_value={most})),
)
"""


@pytest.fixture(scope="module")
def world(base_settings, test_project, spark, tmp_path_factory) -> Iterator[World]:
    project = tmp_path_factory.mktemp("changing") / "project"
    shutil.copytree(test_project, project)
    (project / "spark_jobs" / "fragile.py").unlink()
    with tempfile.TemporaryDirectory(prefix="penstock-swap-") as folder:
        offset = base_settings.port_offset + 1400
        settings = replace(base_settings, home=Path(folder).resolve(), port_offset=offset)
        with changing(settings, project, spark) as world:
            yield world


def test_nothing_is_staged_without_a_change(world):
    plan = build_plan(world.spark, world.settings, world.registry)
    assert plan.changes == []
    world.edit(("    return trades.groupBy(", "    # a word\n    return trades.groupBy("))
    assert build_plan(world.spark, world.settings, world.registry).changes == []
    with pytest.raises(UsageError, match="nothing to stage"):
        world.stage()
    with pytest.raises(UsageError, match="nothing is staged"):
        world.releases.promote(GOLD, why="x", accept=None, keep_warm=None)


def test_a_plan_says_what_a_change_means(world):
    before = world.module.read_text()
    world.edit(('"5 seconds"', '"10 seconds"'))
    (change,) = build_plan(world.spark, world.settings, world.registry).changes
    assert change.category == "breaking"
    assert "roll-up" in change.comparison
    assert any("size_us" in line for line in change.meaning)
    world.module.write_text(before)
    world.edit(EDIT)
    (change,) = build_plan(world.spark, world.settings, world.registry).changes
    assert (change.category, change.columns["added"]) == ("additive", ["largest"])
    assert change.reads[0].rows > 0
    world.module.write_text(before)


def test_the_whole_story(world):
    world.edit(EDIT, FILTER)
    with (
        Poller("delta-rs", world.live, by_delta_rs(world.live)) as one,
        Poller("duckdb", world.live, lambda: _by_query(world)) as two,
    ):
        old = {r.revision for r in world.registry.revisions(states=("live",)) if r.table == GOLD}
        world.stage()
        (status,) = statuses(world.settings, world.registry)
        assert (status.state, status.how) == ("ready", "batch")
        releases = world.releases
        with pytest.raises(UsageError, match="not compared"):
            releases.promote(GOLD, why="too early", accept=None, keep_warm=None)
        plain = releases.compare(GOLD, Wishes())
        assert not plain["within"], "trades of size 13 are left out"
        with pytest.raises(NotWithin):
            releases.promote(GOLD, why="no", accept=None, keep_warm=None)
        meant = Expected("new.trades is null or new.trades < old.trades", "no size 13")
        told = releases.compare(GOLD, Wishes(expected=[meant]))
        (report,) = told["tables"]
        assert told["within"], report["counts"]
        assert report["counts"]["expected"] > 0
        assert report["columns"]["added"] == ["largest"]
        assert any("partition/offset" in row["source"] for row in report["worst"])
        assert "<svg" in Path(told["page"]).read_text()
        candidate = _by_query(world, "@candidate")
        assert "largest" in candidate.column_names
        done = releases.promote(GOLD, why="13 brings bad luck", accept=None, keep_warm=None)
        assert done["tables"][0]["changed"] > 0
        assert "largest" in world.rows().column_names
        time.sleep(3)
        releases.rollback(GOLD, why="it does not")
        assert "largest" not in world.rows().column_names
        time.sleep(2)
        with pytest.raises(UsageError, match="rolled back"):
            releases.rollback(GOLD, why="again")
        releases.promote(GOLD, why="it does", accept=None, keep_warm=None)
        time.sleep(3)
    for poller in (one, two):
        seen = judge(poller, world.live)
        assert len(poller.reads) > 20
        assert len(seen) == 2, (poller.name, seen)
    assert old < set(judge(one, world.live))
    assert len(swaps(world.live)) == 3
    table = DeltaTable(str(world.live))
    held = rebuilt(world.live, ("ticker", "window_start"), table.version())
    assert held == bag(table.to_pyarrow_table())
    by_state = {r.revision: r.state for r in world.registry.revisions() if r.table == GOLD}
    assert sorted(by_state.values()) == ["live", "warm"]


def test_two_operators_and_a_candidate_given_up(world):
    world.edit(('"largest"', '"biggest"'))
    world.stage()
    releases = world.releases
    releases.compare(GOLD, Wishes())
    releases.rollback(GOLD, why="somebody else, meanwhile")
    with pytest.raises(UsageError, match="not what it was compared with"):
        releases.promote(GOLD, why="x", accept="y", keep_warm=None)
    (status,) = statuses(world.settings, world.registry)
    folder = world.live / "_revisions" / status.revision
    assert folder.exists()
    releases.abort(GOLD)
    assert not folder.exists()
    assert statuses(world.settings, world.registry) == []
    world.stage()  # the same again, from nothing
    releases.abort(GOLD)
    releases.retire(GOLD)
    with pytest.raises(UsageError, match="no warm revision"):
        releases.retire(GOLD)


def test_held_live_stands_still(world):
    from penstock.runtime.staging import Staging

    staging = Staging(Registry(world.settings))
    staging.hold(GOLD, "a test", "me")
    wait_for("the hold to be carried out", lambda: _held(world))
    version = DeltaTable(str(world.live)).version()
    time.sleep(4)
    assert DeltaTable(str(world.live)).version() == version
    world.stage()
    world.releases.compare(GOLD, Wishes())
    with pytest.raises(PenstockError, match="held"):
        world.releases.promote(GOLD, why="x", accept="y", keep_warm=None)
    staging.release(GOLD)
    wait_for("live to go on", lambda: DeltaTable(str(world.live)).version() > version + 1)
    world.releases.abort(GOLD)


def test_a_void_record_is_taken_back_and_comes_again(world):
    world.feed.send("VOIDED", size=1)
    world.feed.flush()
    place = next(p for p, row in world.feed.acked.items() if row.get("ticker") == "VOIDED")

    def count(layer: str, name: str, column: str = "ticker", value: object = "VOIDED") -> int:
        rows = DeltaTable(str(world.settings.warehouse / layer / name)).to_pyarrow_table()
        return rows[column].to_pylist().count(value)

    wait_for("the trade", lambda: count("silver", "trades") == 1)
    asked = {"stream": "bronze.trades", "ranges": {str(place[0]): [(place[1], place[1])]},
             "undo": False, "why": "sent by mistake", "who": "me"}  # fmt: skip
    told = ask(world.settings, "bronze.trades", "void", asked, quiet=True)
    assert told == {"stream": "bronze.trades", "records": 1, "marked": 1}
    wait_for("it to go", lambda: count("silver", "trades") == 0)
    wait_for("quarantine", lambda: count("quarantine", "silver_trades", "error_class", "void") == 1)

    def reconciled() -> bool:
        ask(world.settings, GOLD, "reconcile", {}, quiet=True)
        return count("gold", "stock_stats") == 0

    wait_for("its windows to go", reconciled)
    ask(world.settings, "bronze.trades", "void", {**asked, "undo": True}, quiet=True)
    wait_for("it to come again", lambda: count("silver", "trades") == 1)
    assert count("quarantine", "silver_trades", "error_class", "void") == 0
    assert count("bronze", "trades", "void", "sent by mistake") == 0


def test_a_backfill_of_what_is_right_changes_nothing(world):
    backfill = Backfill(
        lambda: world.spark, world.settings, Registry(world.settings), _through(world)
    )
    end = dt.datetime.now(dt.UTC)
    start = end - dt.timedelta(hours=1)
    told = backfill.interval("silver.trades", start, end, who="me", why="a test")
    assert told["results"] > 50
    assert told["changed"] == 0
    with pytest.raises(UsageError, match="no time column"):
        backfill.interval("silver.trades", start, end, who="me", why="a test", on="nope")


def test_a_table_and_its_readers_are_built_anew_and_swapped_in(world):
    backfill = Backfill(
        lambda: world.spark, world.settings, Registry(world.settings), _through(world)
    )
    before = {r.table: r.revision for r in world.registry.revisions(states=("live",))}
    release = backfill.stage_again("silver.trades", who="me", why="a test")
    backfill.build(release, lambda *said: None, lambda *said: None)
    told = world.releases.compare("silver.trades", Wishes())
    assert told["within"], [t["counts"] for t in told["tables"]]
    done = world.releases.promote("silver.trades", why="a test", accept=None, keep_warm=None)
    silver, gold = done["tables"]  # of gold, late rows that pend on live are counted in the batch
    assert (silver["table"], silver["changed"]) == ("silver.trades", 0)
    assert gold["table"] == GOLD
    after = {r.table: r.revision for r in world.registry.revisions(states=("live",))}
    assert {t: after[t] for t in before} == {
        t: f"{r.partition('-')[0]}-2" if t in ("silver.trades", GOLD) else r
        for t, r in before.items()
    }
    version = DeltaTable(str(world.live)).version()
    wait_for("live to go on", lambda: DeltaTable(str(world.live)).version() > version + 1)


def _through(world: World):
    return lambda table, verb, told: ask(world.settings, table, verb, told, quiet=True)


def test_a_failed_check_holds_live_refuses_the_candidate_and_never_the_stream(world):
    suite = world.settings.expectations / "gold" / "stock_stats.py"
    suite.parent.mkdir(parents=True)
    suite.write_text(SUITE.format(most=0))
    (failed,) = Gate(world.settings).run([GOLD], "gold").tables
    assert failed.failures == ["column_values_to_be_between(trades)"]
    assert failed.held == [GOLD]
    assert failed.outcomes[0].unexpected_count == failed.rows
    assert failed.outcomes[0].failing[0]["records"][0]["topic"] == "trades"
    wait_for("the hold to be carried out", lambda: _held(world))
    version = DeltaTable(str(world.live)).version()
    revision = world.live / "_revisions" / failed.revision
    own = DeltaTable(str(revision)).version()
    wait_for("the stream to go on", lambda: DeltaTable(str(revision)).version() > own + 2)
    assert DeltaTable(str(world.live)).version() == version

    world.stage()
    told = world.releases.compare(GOLD, Wishes(threshold=1.0))
    (report,) = told["tables"]
    assert (report["alike"], told["within"]) == (True, False)
    assert report["quality"]["failures"] == failed.failures
    assert "column_values_to_be_between(trades)" in Path(told["page"]).read_text()
    with pytest.raises(QualityFailed, match=r"fails blocking checks\. gold\.stock_stats: column"):
        world.releases.promote(GOLD, why="x", accept="differences do not matter", keep_warm=None)

    suite.write_text(SUITE.format(most=1_000_000))
    (mended,) = Gate(world.settings).run([GOLD], "gold").tables
    assert (mended.state, mended.revision) == ("held", failed.revision)
    assert mended.version > own, "what live would show is looked at, not what it stands at"
    assert mended.released == [GOLD]
    wait_for("live to go on", lambda: DeltaTable(str(world.live)).version() > version + 1)
    assert world.releases.compare(GOLD, Wishes(threshold=1.0))["within"]
    past = history(world.settings, GOLD)
    assert [(run["boundary"], run["blocking"]) for run in past] == [
        ("promote", 0), ("gold", 0), ("promote", 1), ("gold", 1),
    ]  # fmt: skip
    world.releases.abort(GOLD)


def test_what_a_person_holds_no_check_lets_go(world):
    from penstock.runtime.staging import Hold, Staging

    staging = Staging(Registry(world.settings))
    staging.hold(GOLD, "a check failed", Hold.QUALITY)
    staging.hold(GOLD, "I am looking at it", "me")
    (passed,) = Gate(world.settings).run([GOLD], "gold").tables
    assert (passed.failures, passed.released) == ([], [])
    held = staging.holds()[GOLD]
    assert (held.held_by, held.reason) == ("quality, me", "a check failed; I am looking at it")
    assert staging.release(GOLD)


def test_a_stranger_on_a_live_table_is_noticed_and_taken_back(world):
    before = DeltaTable(str(world.live)).version()
    some = world.rows().slice(0, 3)
    names = pa.array([f"STRANGER{n}" for n in range(some.num_rows)])
    stranger = some.set_column(some.column_names.index("ticker"), "ticker", names)
    write_deltalake(str(world.live), stranger, mode="append")
    parked = wait_for("the table to be parked", lambda: _parked(world))
    assert "somebody else" in parked["error"]
    told = ask(world.settings, GOLD, "repair", {"table": GOLD, "who": "me", "why": "x"}, quiet=True)
    assert told["version"] > before
    wait_for("the stream to go on", lambda: not _parked(world))
    revision = world.live / "_revisions" / world.releases._live()[GOLD].revision

    def itself() -> bool:
        return bag(world.rows()) == bag(DeltaTable(str(revision)).to_pyarrow_table())

    wait_for("live to be its revision", itself)
    version = DeltaTable(str(world.live)).version()
    wait_for("live to go on", lambda: DeltaTable(str(world.live)).version() > version + 1)
    table = DeltaTable(str(world.live))
    held = rebuilt(world.live, ("ticker", "window_start"), table.version())
    assert held == bag(table.to_pyarrow_table())
    assert not any("STRANGER" in str(row) for row in held)


def _held(world: World) -> bool:
    beat = world.registry.heartbeat()
    return any("live is held" in s.get("alarm", "") for s in beat.streams)


def _parked(world: World) -> dict | None:
    beat = world.registry.heartbeat()
    found = [s for s in beat.streams if s["stream"].startswith(GOLD) and s["state"] == "parked"]
    return found[0] if found else None


def _by_query(world: World, at: str = "") -> pa.Table:
    found = run_query(world.settings, f"select * from gold.stock_stats{at}")
    columns = list(zip(*found.rows, strict=True)) or [()] * len(found.columns)
    return pa.table({n: list(c) for n, c in zip(found.columns, columns, strict=True)})
